// Theme, sorting, values of points, and filters. Text from data only ever becomes text nodes.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
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

  // Sorting: by the better end first, then the other way, then as at first.
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    all("thead th", table).forEach((heading, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const first = heading.dataset.first;
        const other = first === "ascending" ? "descending" : "ascending";
        const next = { none: first, [first]: other, [other]: "none" }[heading.getAttribute("aria-sort")];
        for (const th of all("thead th", table)) th.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", next);
        const number = heading.classList.contains("number");
        const key = (row) => {
          const text = row.cells[index].dataset.value ?? row.cells[index].textContent;
          return number ? parseFloat(text.replaceAll(",", "")) : text;
        };
        const sign = next === "descending" ? -1 : 1;
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          if (!number) return sign * x.localeCompare(y);
          // Undefined figures come last either way.
          return Number.isNaN(x) || Number.isNaN(y) ? Number.isNaN(x) - Number.isNaN(y) : sign * (x - y);
        };
        body.append(...(next === "none" ? original : [...original].sort(compare)));
      });
    });
  }

  // Values of points: on hover, and on focus, which arrow keys move within a figure.
  const said = document.createElement("div");
  said.id = "said";
  said.hidden = true;
  document.body.append(said);
  const hush = () => { said.hidden = true; };
  function say(point) {
    const place = point.getBoundingClientRect();
    said.textContent = point.getAttribute("aria-label");
    said.hidden = false;
    const left = Math.max(0, Math.min(place.right + 8, root.clientWidth - said.offsetWidth));
    said.style.left = `${left + scrollX}px`;
    said.style.top = `${place.top + scrollY - said.offsetHeight}px`;
  }
  // Of a figure's points, and of a text's words, only one is a stop of the Tab key; arrow keys lead to the others.
  function rove(points) {
    points.forEach((point, index) => {
      if (index) point.tabIndex = -1;
      point.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (event.key === "Escape") hush();
        if (!step) return;
        event.preventDefault();
        points[(index + step + points.length) % points.length].focus();
      });
    });
  }
  for (const words of all(".words")) rove(all("[data-score]", words));
  for (const figure of all("figure")) {
    const points = all(".value", figure);
    rove(points);
    for (const point of points) {
      point.querySelector("title").remove();
      point.addEventListener("mouseenter", () => say(point));
      point.addEventListener("mouseleave", hush);
      point.addEventListener("focus", () => say(point));
      point.addEventListener("blur", hush);
    }
  }

  // Filters.
  const form = document.getElementById("filter");
  if (!form) return;
  const checked = (name) => new Set(all(`input[name="${name}"]:checked`, form).map((input) => input.value));
  function apply() {
    const [tasks, methods, [answer]] = [checked("task"), checked("method"), [...checked("answer")]];
    for (const part of all("[data-task]")) part.hidden = !tasks.has(part.dataset.task);
    for (const row of all("[data-method]")) row.hidden = !methods.has(row.dataset.method);
    for (const text of all("[data-answer]")) text.hidden = !answer.split(" or ").includes(text.dataset.answer);
  }
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of all("button[data-all]", form)) {
    button.addEventListener("click", () => {
      for (const input of all('input[name="method"]', form)) input.checked = button.dataset.all === "yes";
      apply();
    });
  }
})();
