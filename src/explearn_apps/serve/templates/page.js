// The page works without this. With it, a word can be changed where it stands, and answers come without a reload.
"use strict";

const form = document.getElementById("ask");
const result = document.getElementById("result");
const said = document.getElementById("said");
let running = null;

function showWords() {
  for (const part of result.querySelectorAll(".edit")) part.hidden = false;
  // Of a text's scored words only the first is a stop of the Tab key; arrow keys lead to the others.
  for (const text of result.querySelectorAll(".words")) {
    const scored = [...text.querySelectorAll("[data-score]")];
    scored.forEach((word, index) => {
      if (index) word.tabIndex = -1;
      word.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        scored[(index + step + scored.length) % scored.length].focus();
      });
    });
  }
}

function complain(sentence) {
  const message = document.createElement("p");
  message.className = "error";
  message.setAttribute("role", "alert");
  message.textContent = sentence;
  result.replaceChildren(message);
}

function summary() {
  const change = result.querySelector("#change");
  return (change || result.querySelector("h2, .error") || said).textContent;
}

async function ask() {
  if (running) running.abort();
  const mine = (running = new AbortController());
  form.classList.add("busy");
  try {
    const answer = await fetch("./", {
      method: "POST", body: new URLSearchParams(new FormData(form)), signal: mine.signal,
    });
    const text = await answer.text();
    if (!(answer.headers.get("content-type") || "").startsWith("text/html")) {
      complain(JSON.parse(text).error);
      return;
    }
    const page = new DOMParser().parseFromString(text, "text/html");
    result.replaceChildren(...page.getElementById("result").childNodes);
    const sent = page.getElementById("ask").elements;
    if (answer.ok) for (const name of ["before", "before_pair"]) form.elements[name].value = sent[name].value;
    document.title = page.title;
    showWords();
    said.textContent = summary();
  } catch (error) {
    if (error.name !== "AbortError") complain("The service does not answer.");
  } finally {
    if (running === mine) {
      running = null;
      form.classList.remove("busy");
    }
  }
}

function change(button) {
  const field = document.createElement("input");
  const words = [...result.querySelectorAll(".edit button")];
  const place = words.indexOf(button);
  // What the button shows has control characters as escapes.
  const old = button.dataset.word;
  let done = false;
  field.value = old;
  field.setAttribute("aria-label", `Instead of ${button.textContent}`);
  button.replaceWith(field);
  field.focus();
  field.select();

  async function finish(keep) {
    if (done) return;
    done = true;
    const area = form.elements[button.dataset.part];
    // Places count characters, not UTF-16 units.
    const letters = Array.from(area.value);
    const start = Number(button.dataset.start), end = Number(button.dataset.end);
    const same = letters.slice(start, end).join("") === old;
    field.replaceWith(button);
    if (!keep || field.value.trim() === old || !same) {
      button.focus();
      return;
    }
    letters.splice(start, end - start, ...Array.from(field.value.trim()));
    area.value = letters.join("");
    await ask();
    const after = [...result.querySelectorAll(".edit button")];
    if (after.length) after[Math.min(place, after.length - 1)].focus();
  }

  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      finish(true);
    } else if (event.key === "Escape") finish(false);
  });
  field.addEventListener("blur", () => finish(true));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask().then(() => {
    if (result.getBoundingClientRect().top > window.innerHeight / 2) result.scrollIntoView();
  });
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
result.addEventListener("click", (event) => {
  const button = event.target.closest(".edit button");
  if (button) change(button);
});
showWords();
