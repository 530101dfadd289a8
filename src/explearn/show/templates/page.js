// Theme and sorting, for every page. Text from data only ever becomes text nodes.
"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

(() => {
  const root = document.documentElement;

  // Theme: the system's, until the reader chooses; the choice lasts where the browser lets a file store it.
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const nameTheme = () => { theme.textContent = isDark() ? "Light theme" : "Dark theme"; };
  function stored(value) {
    try {
      if (value) localStorage.setItem("explearn-theme", value);
      return localStorage.getItem("explearn-theme");
    } catch { return null; }
  }
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(root.dataset.theme);
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  nameTheme();
  theme.hidden = false;

  // Sorting: by the better end first, then the other way, then the order of families.
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    all("thead th", table).forEach((heading, index) => {
      const button = element("button", { type: "button" }, ...heading.childNodes);
      heading.append(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const first = heading.dataset.first || "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const next = { none: first, [first]: other, [other]: "none" }[heading.getAttribute("aria-sort")];
        for (const th of all("thead th", table)) th.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", next);
        table.classList.toggle("sorted", next !== "none");
        const key = (row) => row.cells[index].dataset.value ?? row.cells[index].textContent;
        const number = heading.classList.contains("number");
        const sign = next === "descending" ? -1 : 1;
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          // Undefined figures come last either way.
          if (x === "" || y === "") return (x === "") - (y === "");
          return sign * (number ? Number(x) - Number(y) : x.localeCompare(y));
        };
        body.append(...(next === "none" ? original : [...original].sort(compare)));
      });
    });
  }
})();
