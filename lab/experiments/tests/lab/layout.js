"use strict";
// Collects facts on how the page looks, as JSON, and sends them to the page that has it in a frame.
{
  for (const details of document.querySelectorAll("details")) details.open = true;
  const root = document.documentElement;
  const touch = (a, b) =>
    a.left < b.right - 0.5 && b.left < a.right - 0.5 &&
    a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const faults = [];
  let smallest = Infinity;
  const pictures = document.querySelectorAll("figure svg");
  for (const svg of pictures) {
    const frame = svg.getBoundingClientRect();
    const name = svg.getAttribute("aria-label");
    const texts = [...svg.querySelectorAll("text")].map((text) => ({
      says: text.lastChild?.textContent ?? "", box: text.getBoundingClientRect(),
    }));
    const units = parseFloat(svg.getAttribute("viewBox").split(" ")[2]);
    smallest = Math.min(smallest, 12 * frame.width / units);
    texts.forEach((one, index) => {
      const { box, says } = one;
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        faults.push(`${name}: "${says}" leaves the picture`);
      }
      for (const other of texts.slice(index + 1)) {
        if (touch(box, other.box)) faults.push(`${name}: "${says}" touches "${other.says}"`);
      }
    });
    for (const shape of svg.querySelectorAll("rect, circle, polyline, polygon, line")) {
      for (const { name: key, value } of shape.attributes) {
        if (/NaN|inf/i.test(value)) faults.push(`${name}: ${shape.tagName} has ${key} ${value}`);
      }
    }
  }
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // Checks the contrast of text that has its own colour with the background under it.
  const ground = (element) => {
    const { backgroundColor } = getComputedStyle(element);
    const isClear = /^rgba\(.*, 0\)$/.test(backgroundColor);
    return isClear ? ground(element.parentElement) : backgroundColor;
  };
  const faint = [];
  for (const element of document.querySelectorAll(
    ".note, .detail, .better, .worse, td, th, dt, dd, summary, a, button, code, .verdict")) {
    if (element.closest("svg") || !element.textContent.trim()) continue;
    const [one, two] = [getComputedStyle(element).color, ground(element)].map(luminance);
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < 4.5) faint.push(`${element.textContent.slice(0, 40)}: ${contrast}`);
  }
  // An element whose content is wider than its box is partly hidden.
  const isCut = (element) => element.scrollWidth > element.clientWidth + 1 &&
    getComputedStyle(element).display !== "inline" && element.clientWidth > 1;
  const cut = [...document.querySelectorAll("body *")]
    .filter((element) => !element.closest("svg, thead") && isCut(element))
    .map((element) => `${element.tagName}.${element.className}: ${element.scrollWidth} in ` +
      `${element.clientWidth}: ${element.textContent.slice(0, 60)}`);
  const first = (selector) => {
    const all = [...document.querySelectorAll("svg")];
    return all.findIndex((svg) => svg.querySelector(selector));
  };
  const style = getComputedStyle(document.body);
  const [ink, paper] = [luminance(style.color), luminance(style.backgroundColor)];
  document.querySelector("[data-variant=v1]")?.click();
  const hidden = [...document.querySelectorAll("figure .v1")];
  parent.postMessage(JSON.stringify({
    innerWidth, scrollWidth: root.scrollWidth, clientWidth: root.clientWidth,
    pictures: pictures.length, dots: document.querySelectorAll("circle.dot").length,
    cut, faint, title: document.title, heading: document.querySelector("h1").textContent,
    intervals: first(".one"), boxes: first(".box"),
    copies: [...document.querySelectorAll("[data-copies]")].filter((it) => !it.hidden).map(
      (it) => document.getElementById(it.dataset.copies).textContent),
    unnamed: document.querySelectorAll("svg[role=img]:not([aria-label]), table:not([aria-label])")
      .length,
    colours: Object.fromEntries([...document.querySelectorAll(".switch")].map((it) =>
      [it.textContent.trim(), getComputedStyle(it).getPropertyValue("--c").trim()])),
    images: document.querySelectorAll("img, iframe, link, [src]").length, faults, smallest,
    downloads: document.querySelectorAll("a[download]").length, dark: paper < ink,
    contrast: (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05),
    toggled: hidden.length > 0 && hidden.every((it) => getComputedStyle(it).display === "none"),
  }), "*");
}
