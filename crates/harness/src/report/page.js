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
    one.addEventListener("change", () => {
      root.classList.toggle("no-" + one.dataset.variant, !one.checked);
      for (const other of switches) {
        if (other.dataset.variant === one.dataset.variant) other.checked = one.checked;
      }
    });
  }

  // The head of a table sorts it: by number where both cells begin with one.
  const compare = (a, b) => {
    const [x, y] = [parseFloat(a), parseFloat(b)];
    return isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y;
  };
  for (const head of document.querySelectorAll("thead th")) {
    head.dataset.sorts = "";
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
