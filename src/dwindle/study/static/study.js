// What the pages gain where scripts run: time in view, shortcuts, answers that outlive a reload, and highlights.
// Everything else works without this file.
"use strict";

const saved = document.querySelector("[data-saved]");
if (saved) sessionStorage.removeItem("draft-" + saved.dataset.saved);

const form = document.getElementById("ballot");
if (form) {
  keepTime(form);
  keepDraft(form);
  shortcuts(form);
  highlights();
  document.querySelector(".tools").hidden = false;
}

// Seconds with the page in view, added to those of earlier visits.
function keepTime(form) {
  const before = Number(form.elements.seconds.value) || 0;
  let spent = 0;
  let since = document.hidden ? null : performance.now();
  const total = () => spent + (since === null ? 0 : performance.now() - since);
  document.addEventListener("visibilitychange", () => {
    spent = total();
    since = document.hidden ? null : performance.now();
  });
  form.addEventListener("submit", () => {
    form.elements.seconds.value = (before + total() / 1000).toFixed(1);
  });
}

// Answers given on this page but not yet saved, for the case of a reload. Gone when the server says "saved".
function keepDraft(form) {
  const name = "draft-" + form.dataset.place;
  const kept = JSON.parse(sessionStorage.getItem(name) || "{}");
  for (const [field, value] of Object.entries(kept)) {
    if (field !== "proof" && field !== "seconds" && form.elements[field]) form.elements[field].value = value;
  }
  form.addEventListener("input", () => {
    sessionStorage.setItem(name, JSON.stringify(Object.fromEntries(new FormData(form))));
  });
}

function shortcuts(form) {
  const wanted = document.getElementById("shortcuts");
  const show = () => document.body.classList.toggle("keys", wanted.checked);
  wanted.checked = localStorage.getItem("shortcuts") !== "off";
  wanted.addEventListener("change", () => {
    localStorage.setItem("shortcuts", wanted.checked ? "on" : "off");
    show();
  });
  show();
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("textarea");
    if (event.key === "Enter" && typing && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    if (!wanted.checked || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const answer = /^[0-9]$/.test(event.key) && form.querySelector(`[data-key="${event.key}"]`);
    const link = { b: "back", n: "next" }[event.key];
    if (answer) {
      answer.checked = true;
      answer.focus();
      answer.dispatchEvent(new Event("input", { bubbles: true }));
    } else if (link) {
      document.getElementById(link)?.click();
    } else if (event.key === "s") {
      const source = document.querySelector(".source");
      source.open = !source.open;
    } else if (event.key === "Enter" && !event.target.closest("a, button, summary, input")) {
      form.requestSubmit();
    } else {
      return;
    }
    event.preventDefault();
  });
}

// A copied run of words under the pointer shows its sentence in the source, and a sentence its copies.
function highlights() {
  const wanted = document.getElementById("show-copied");
  const show = () => document.body.classList.toggle("show-copied", wanted.checked);
  wanted.checked = localStorage.getItem("show-copied") === "on";
  wanted.addEventListener("change", () => {
    localStorage.setItem("show-copied", wanted.checked ? "on" : "off");
    show();
  });
  show();
  document.addEventListener("pointerover", (event) => {
    const number = event.target.closest("[data-sentence]")?.dataset.sentence;
    document.querySelectorAll(".met").forEach((met) => met.classList.remove("met"));
    if (number !== undefined) {
      document.querySelectorAll(`[data-sentence="${number}"]`).forEach((met) => met.classList.add("met"));
    }
  });
}
