"use strict";
// What a reader would see, as JSON for the page around this one.
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
  const style = getComputedStyle(document.body);
  const [ink, paper] = [luminance(style.color), luminance(style.backgroundColor)];
  document.querySelector("[data-variant=v1]")?.click();
  const hidden = [...document.querySelectorAll("figure .v1")];
  parent.postMessage(JSON.stringify({
    innerWidth, scrollWidth: root.scrollWidth, clientWidth: root.clientWidth,
    pictures: pictures.length, dots: document.querySelectorAll("circle.dot").length,
    images: document.querySelectorAll("img, iframe, link, [src]").length, faults, smallest,
    downloads: document.querySelectorAll("a[download]").length, dark: paper < ink,
    contrast: (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05),
    toggled: hidden.length > 0 && hidden.every((it) => getComputedStyle(it).display === "none"),
  }), "*");
}
