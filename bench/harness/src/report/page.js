"use strict";
{
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const themes = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
  let theme = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    const [name, says] = themes[theme];
    if (name) root.dataset.theme = name; else delete root.dataset.theme;
    button.textContent = "Theme: " + says;
  });

  // A variant is shown or hidden in all pictures and tables at once.
  const switches = [...document.querySelectorAll("[data-variant]")];
  for (const one of switches) {
    one.checked = true;
    one.hidden = false;
    one.addEventListener("change", () => {
      root.classList.toggle("no-" + one.dataset.variant, !one.checked);
      for (const other of switches) {
        if (other.dataset.variant === one.dataset.variant) other.checked = one.checked;
      }
    });
  }

  // A button copies the text of the element that it names.
  for (const copies of document.querySelectorAll("[data-copies]")) {
    const says = copies.textContent;
    copies.hidden = false;
    copies.addEventListener("click", async (event) => {
      // One button stands in a summary, which a click would open.
      event.preventDefault();
      const source = document.getElementById(copies.dataset.copies);
      const done = await copy(source.textContent, source);
      copies.textContent = done ? "Copied" : "Select it and copy";
      setTimeout(() => { copies.textContent = says; }, 2000);
    });
  }
  async function copy(text, source) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // No right to the clipboard: the text is shown and selected, and older browsers copy that.
      const details = source.closest("details");
      if (details) details.open = true;
      getSelection().selectAllChildren(source);
      return document.execCommand("copy");
    }
  }

  // The head of a table sorts it: by number where both cells begin with one.
  const compare = (a, b) => {
    const [x, y] = [parseFloat(a), parseFloat(b)];
    return isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y;
  };
  for (const head of document.querySelectorAll("thead th")) {
    head.dataset.sorts = "";
    head.tabIndex = 0;
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter") head.click();
    });
    head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = head.closest("table").tBodies[0];
      const text = (row) => row.cells[head.cellIndex]?.textContent ?? "";
      const rows = [...body.rows].sort((a, b) => compare(text(a), text(b)));
      body.append(...(down ? rows.reverse() : rows));
    });
  }
}
