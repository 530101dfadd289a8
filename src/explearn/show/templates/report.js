// Filters and heatmaps of report.html, after page.js.
(() => {
  const FIRST = 5; // texts shown before the reader asks for more
  const MANY_WORDS = 150; // from here on a text scrolls in its own box
  const data = JSON.parse(document.getElementById("data").textContent);

  // Filters.
  const form = document.getElementById("filter");
  const checked = (name) => new Set(all(`input[name="${name}"]:checked`, form).map((input) => input.value));
  let tasks, methods, answers;
  let shown = FIRST;

  function apply() {
    tasks = checked("task");
    methods = checked("method");
    answers = [...checked("answer")][0];
    shown = FIRST;
    for (const part of all("[data-task]")) part.hidden = !tasks.has(part.dataset.task);
    for (const row of all("tr[data-method]")) row.hidden = !methods.has(row.dataset.method);
    for (const matrix of all("table.matrix")) {
      all("thead th[data-method]", matrix).forEach((heading, index) => {
        heading.hidden = !methods.has(heading.dataset.method);
        for (const row of matrix.tBodies[0].rows) row.cells[index + 1].hidden = heading.hidden;
      });
    }
    showTexts();
  }

  // Heatmaps.
  const list = document.getElementById("texts");
  const status = document.getElementById("status");
  const more = document.getElementById("more");

  function words(text, paint) {
    const line = element("p", { class: text.words.length > MANY_WORDS ? "words long" : "words" });
    if (text.words.length > MANY_WORDS) line.tabIndex = 0;
    text.words.forEach((word, index) => {
      if (index === text.pair) line.append(element("span", { class: "break", "aria-label": "second segment" }, "‖"), " ");
      line.append(paint(word, index), " ");
    });
    return line;
  }

  function scored(text, number) {
    const scores = text.scores[number];
    const chosen = text.chosen[number];
    return words(text, (word, index) => {
      if (scores[index] === null) return element("span", { class: "unread", title: "not read" }, word);
      const name = chosen[index] === "1" ? "strong" : "span";
      if (scores[index] === null) return element(name, { class: "unread", title: data.unread }, word);
      const share = scores[index] / data.full;
      const sign = text.signs[number] && Math.abs(share) >= data.faint ? " signed" : "";
      const span = element(name, { class: (share < 0 ? "against" : "for") + sign, title: share.toFixed(2) }, word);
      span.style.setProperty("--s", Math.abs(share));
      return span;
    });
  }

  function row(name, note, line) {
    return element("li", {}, element("div", { class: "who" }, element("b", {}, name), " ", element("small", {}, note)), line);
  }

  function card(task, text) {
    const head = element("p", { class: "soft" }, `${task.name}: true label `, element("b", {}, text.label), ", predicted ",
      element("b", {}, text.predicted), ` (p = ${text.probability}) `,
      text.right === null ? "" : element("span", { class: text.right ? "right" : "wrong" }, text.right ? "✓ right" : "✗ wrong"));
    const marked = [...text.marked].filter((mark) => mark === "1").length;
    const rows = [row("Marked words", `by ${text.kinds}: ${marked}`,
      words(text, (word, index) => element(text.marked[index] === "1" ? "mark" : "span", {}, word)))];
    data.methods.forEach((method, number) => {
      if (!methods.has(method) || !text.scores[number]) return;
      const chosen = [...text.chosen[number]];
      const hits = chosen.filter((mark, index) => mark === "1" && text.marked[index] === "1").length;
      const answer = text.answers[number];
      const note = `${hits} of ${chosen.filter((mark) => mark === "1").length} chosen are marked`;
      rows.push(row(method, answer === null ? note : `${note}; explains “${answer}”`, scored(text, number)));
    });
    return element("article", { class: "text" }, element("h3", {}, text.id), head, element("ul", {}, ...rows));
  }

  function showTexts() {
    const found = data.tasks.flatMap((task) => (tasks.has(task.name) ? task.texts.map((text) => [task, text]) : []))
      .filter(([, text]) => answers === "all" || text.right === (answers === "right"));
    const part = found.slice(0, shown);
    list.replaceChildren(...part.map(([task, text]) => card(task, text)));
    status.textContent = `${part.length} of ${found.length} texts`;
    more.hidden = part.length === found.length;
  }

  more.addEventListener("click", () => {
    const next = shown;
    shown += FIRST;
    showTexts();
    const heading = list.children[next].querySelector("h3");
    heading.tabIndex = -1;
    heading.focus();
  });
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of all("button[data-all]", form)) {
    button.addEventListener("click", () => {
      for (const input of all('input[name="method"]', form)) input.checked = button.dataset.all === "yes";
      apply();
    });
  }
  apply();
})();
