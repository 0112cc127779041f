"use strict";
// What the page gains where scripts run: the browser of examples, the coverage view, and the mark of the section in view.
// Texts only ever become text nodes.

const VIEWS = {examples, coverage: () => {}};

function start() {
  for (const place of document.querySelectorAll(".view")) {
    VIEWS[place.dataset.view](place, JSON.parse(document.getElementById(place.dataset.from).textContent));
  }
  follow();
}

// An element with attributes or properties and children; a string child is a text node.
function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child !== null));
  return element;
}

function choice(label, options, pick) {
  const select = make("select", {onchange: () => pick(Number(select.value))},
    ...options.map((text, k) => make("option", {value: k}, text)));
  return make("label", {}, label, select);
}

// Buttons of which one is pressed.
function buttons(names, pick) {
  const all = names.map((name, k) => make("button", {type: "button", "aria-pressed": k === 0, onclick: () => {
    all.forEach((one, j) => one.setAttribute("aria-pressed", j === k));
    pick(k);
  }}, name));
  return make("span", {class: "buttons", role: "group"}, ...all);
}

function signed(value, digits = 2) {
  return (value > 0 ? "+" : value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(digits);
}

// The examples: a list to sort by gain or loss, and one item with its texts side by side.

function examples(place, data) {
  const state = {other: data.systems.length > 1 ? 1 : 0, metric: 0, order: 0, item: null};
  const list = make("ol", {class: "list", role: "listbox", tabindex: "0", "aria-label": "Items", onkeydown: move});
  const detail = make("div", {class: "detail", "aria-live": "polite"});
  const orders = state.other ? ["Largest gains", "Largest losses", "By id"] : ["By id"];

  const controls = make("div", {class: "controls"});
  if (data.systems.length > 2) controls.append(choice("Compare", data.systems.slice(1), k => { state.other = k + 1; fill(); }));
  if (data.metrics.length) controls.append(choice("by", data.metrics.map(m => m[1]), k => { state.metric = k; fill(); }));
  if (state.other) controls.append(buttons(orders, k => { state.order = k; fill(); }));
  place.append(controls, make("div", {class: "browser"}, list, detail));
  fill();

  function gain(item) {
    if (!state.other || !data.metrics.length) return 0;
    const [name, , direction] = data.metrics[state.metric];
    return (item.scores[name][state.other] - item.scores[name][0]) * (direction || 1);
  }

  function fill() {
    const items = [...data.items];
    if (state.other && state.order < 2) items.sort((a, b) => (gain(b) - gain(a)) * (state.order ? -1 : 1));
    const most = Math.max(...items.map(item => Math.abs(gain(item))), 1e-9);
    list.replaceChildren(...items.map(item => entry(item, most)));
    show(items[0]);
  }

  function entry(item, most) {
    const value = gain(item);
    const side = value > 0 ? "up" : value < 0 ? "down" : "";
    const row = make("li", {role: "option", onclick: () => show(item)}, make("span", {class: "id", title: item.id}, item.id));
    row.item = item;
    if (!state.other) return row;
    const bar = make("i", {class: value < 0 ? "loss" : "gain"});
    bar.style.width = `${50 * Math.abs(value) / most}%`;
    bar.style[value < 0 ? "right" : "left"] = "50%";
    row.append(make("span", {class: side}, signed(value)), make("span", {class: "track"}, bar));
    return row;
  }

  function move(event) {
    const step = {ArrowDown: 1, ArrowUp: -1, j: 1, k: -1}[event.key];
    const next = step && [...list.children][[...list.children].findIndex(row => row.item === state.item) + step];
    if (!next) return;
    event.preventDefault();
    show(next.item);
    next.scrollIntoView({block: "nearest"});
  }

  function show(item) {
    state.item = item;
    for (const row of list.children) row.setAttribute("aria-selected", row.item === item);
    if (!item) return;
    const shown = data.systems.map((_, k) => k).filter(k => data.systems.length <= 3 || k === 0 || k === state.other);
    const sentences = (item.source ?? []).map(text => make("span", {}, text));
    detail.replaceChildren(
      make("h3", {}, item.id),
      make("p", {class: "key"},
        item.source ? make("span", {}, make("span", {class: "copied"}, "copied"), " three words or more in a row from the source") : null,
        data.systems.length > 1 ? make("span", {}, make("span", {class: "other"}, "differs"), ` not in ${data.systems[0]}'s output`) : null),
      make("div", {class: "texts"},
        ...shown.map(k => card(data.systems[k], words(item.outputs[k], sentences), `system s${k % 8}`, figures(item, k))),
        ...item.references.map((text, k) => card(item.references.length > 1 ? `reference ${k + 1}` : "reference", [text], "whole")),
        item.source ? card("source", sentences, "whole source") : card("source", ["This file has no sources."], "whole")));
  }

  function figures(item, k) {
    if (!data.metrics.length) return "";
    const [name, title] = data.metrics[state.metric];
    return `${title} ${item.scores[name][k].toFixed(2)}`;
  }

  function words(parts, sentences) {
    if (!parts.length) return [make("em", {}, "(empty)")];
    return parts.map(([text, copied, other]) => {
      if (copied === null && !other) return text;
      const span = make("span", {class: `${copied === null ? "" : "copied "}${other ? "other" : ""}`}, text);
      if (copied !== null && sentences[copied]) {
        const light = on => { span.classList.toggle("met", on); sentences[copied].classList.toggle("met", on); };
        span.addEventListener("mouseenter", () => light(true));
        span.addEventListener("mouseleave", () => light(false));
        span.addEventListener("click", () => sentences[copied].scrollIntoView({block: "nearest", behavior: "smooth"}));
      }
      return span;
    });
  }
}

function card(title, children, kind, aside = "") {
  return make("article", {class: `text ${kind}`}, make("h3", {}, title, make("span", {}, aside)),
    make("div", {class: "words", dir: "auto"}, ...children));
}

// Mark the section in view in the bar at the top.
function follow() {
  const links = new Map([...document.querySelectorAll("nav a")].map(link => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver(entries => {
    for (const {target, isIntersecting} of entries) {
      if (!isIntersecting) continue;
      links.forEach(link => link.classList.remove("here"));
      links.get(target.id)?.classList.add("here");
    }
  }, {rootMargin: "-20% 0px -75% 0px"});
  document.querySelectorAll("section[id]").forEach(section => seen.observe(section));
}

start();
