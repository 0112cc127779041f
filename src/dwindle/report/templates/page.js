"use strict";
// What the page gains where scripts run: the browser of examples, the coverage view, and the mark of the section in view.
// Texts only ever become text nodes.

const VIEWS = {examples, coverage, sound};

function start() {
  for (const place of document.querySelectorAll(".view")) {
    VIEWS[place.dataset.view](place, JSON.parse(document.getElementById(place.dataset.from).textContent));
  }
  follow();
  unfoldForPrint();
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

// The examples: a list to sort by gain or loss, of one system with the worst first; and one item with its texts side by
// side.

function examples(place, data) {
  const state = {other: data.systems.length > 1 ? 1 : 0, metric: 0, order: 0, item: null, sought: ""};
  const home = place.dataset.from.replace(/-data$/, "");
  const list = make("ol", {class: "list", role: "listbox", tabindex: "0", "aria-label": "Items", onkeydown: move});
  const detail = make("div", {class: "detail", "aria-live": "polite"});
  const orders = state.other ? ["Largest gains", "Largest losses", "By id"] : ["Worst first", "By id"];

  const controls = make("div", {class: "controls"});
  if (data.systems.length > 2) controls.append(choice("Compare", data.systems.slice(1), k => { state.other = k + 1; fill(); }));
  if (data.metrics.length) controls.append(choice("by", data.metrics.map(m => m[1]), k => { state.metric = k; fill(); }));
  if (state.other || data.metrics.length) controls.append(buttons(orders, k => { state.order = k; fill(); }));
  const search = make("input", {type: "search", placeholder: "Search ids and texts", "aria-label": "Search", oninput: () => {
    state.sought = search.value.toLowerCase();
    fill();
  }});
  controls.append(search);
  place.append(controls, make("div", {class: "browser"}, list, detail));
  fill();
  addEventListener("hashchange", linked);
  linked();

  // A link to an example opens it.
  function linked() {
    const item = data.items.find(one => location.hash === link(one));
    if (!item) return;
    show(item);
    place.scrollIntoView();
  }

  function link(item) {
    return `#${home}/${encodeURIComponent(item.id)}`;
  }

  function found(item) {
    const texts = [item.id, ...(item.source ?? []), ...item.references, ...item.outputs.flat().map(part => part[0])];
    return texts.join("").toLowerCase().includes(state.sought);
  }

  function gain(item) {
    if (!state.other || !data.metrics.length) return 0;
    const [name, , direction] = data.metrics[state.metric];
    return (item.scores[name][state.other] - item.scores[name][0]) * (direction || 1);
  }

  // How bad an item of the only system is, from 0 to 1 among all that are shown; what is not known is not bad.
  function bad(item) {
    if (state.other || !data.metrics.length) return 0;
    const name = data.metrics[state.metric][0], known = data.items.map(one => one.worst[name]).filter(one => one !== null);
    const least = Math.min(...known), value = item.worst[name];
    return value === null ? 0 : (value - least) / (Math.max(...known) - least || 1);
  }

  function fill() {
    const items = data.items.filter(found);
    if (state.other && state.order < 2) items.sort((a, b) => (gain(b) - gain(a)) * (state.order ? -1 : 1));
    if (!state.other && state.order < 1) {
      const ranks = new Map(items.map(item => [item, bad(item)]));
      items.sort((a, b) => ranks.get(b) - ranks.get(a));
    }
    const most = Math.max(...items.map(item => Math.abs(gain(item))), 1e-9);
    list.replaceChildren(...items.map(item => entry(item, most)));
    if (items.length) show(items[0]);
    else detail.replaceChildren(make("p", {class: "missing"}, "No example has this text."));
  }

  function entry(item, most) {
    const value = gain(item);
    const side = value > 0 ? "up" : value < 0 ? "down" : "";
    const row = make("li", {role: "option", onclick: () => show(item)}, make("span", {class: "id", title: item.id}, item.id));
    row.item = item;
    if (!state.other) {
      if (!data.metrics.length) return row;
      const track = make("i", {class: "loss"});
      track.style.width = `${100 * bad(item)}%`;
      row.append(make("span", {}, number(item, 0)), make("span", {class: "track"}, track));
      return row;
    }
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
    detail.replaceChildren(
      make("h3", {}, make("a", {href: link(item), title: "A link to this example"}, item.id)),
      ...sideBySide(item, data.systems, shown, k => figures(item, k)));
  }

  function number(item, k) {
    return item.scores[data.metrics[state.metric][0]][k]?.toFixed(2) ?? "\u2013";
  }

  function figures(item, k) {
    return data.metrics.length ? `${data.metrics[state.metric][1]} ${number(item, k)}` : "";
  }
}

// Outputs of one source side by side, with what is copied, different and repeated; the references and the source below.
// ``shown``: which systems; ``aside``: what stands beside the name of one.
function sideBySide(item, systems, shown, aside) {
  const sentences = (item.source ?? []).map(text => make("span", {}, text));
  return [
    make("p", {class: "key"},
      item.source ? make("span", {}, make("span", {class: "copied"}, "copied"), " three words or more in a row from the source") : null,
      systems.length > 1 ? make("span", {}, make("span", {class: "other"}, "differs"), ` not in ${systems[0]}'s output`) : null,
      make("span", {}, make("span", {class: "again"}, "repeated"), " three words or more in a row that the output has had before")),
    make("div", {class: "texts"},
      ...shown.map(k => card(systems[k], words(item.outputs[k], sentences), `system s${k % 8}`, aside(k)))),
    make("div", {class: "texts"},
      ...item.references.map((text, k) => card(item.references.length > 1 ? `reference ${k + 1}` : "reference", [text], "whole")),
      item.source ? card("source", sentences, "whole source") : null)];
}

function words(parts, sentences) {
  if (!parts.length) return [make("em", {}, "(empty)")];
  return parts.map(([text, copied, other, repeated]) => {
    if (copied === null && !other && !repeated) return text;
    const marks = [copied === null ? "" : "copied", other ? "other" : "", repeated ? "again" : ""];
    const span = make("span", {class: marks.filter(Boolean).join(" ")}, text);
    if (copied !== null && sentences[copied]) {
      const light = on => { span.classList.toggle("met", on); sentences[copied].classList.toggle("met", on); };
      span.addEventListener("mouseenter", () => light(true));
      span.addEventListener("mouseleave", () => light(false));
      span.addEventListener("click", () => sentences[copied].scrollIntoView({block: "nearest", behavior: "smooth"}));
    }
    return span;
  });
}

function card(title, children, kind, aside = "") {
  return make("article", {class: `text ${kind}`}, make("h3", {}, title, make("span", {}, aside)),
    make("div", {class: "words", dir: "auto"}, ...children));
}

// Coverage: the source shaded by what was used of it, one panel a system; steps where they are known.

function coverage(place, data) {
  const state = {item: null, mode: "effective", other: data.systems.length > 1 ? 1 : 0, step: null, timer: null};
  const list = make("ol", {class: "list", role: "listbox", tabindex: "0", "aria-label": "Items", onkeydown: move});
  const detail = make("div", {class: "detail"});
  const play = make("button", {type: "button", onclick: toggle}, "Play the steps");
  const slider = make("input", {type: "range", min: 0, value: 0, "aria-label": "Step", oninput: () => { stop(); at(slider.valueAsNumber); }});
  const controls = make("div", {class: "controls"});
  if (data.systems.length > 2 && !data.all) controls.append(choice("Compare", data.systems.slice(1), k => { state.other = k + 1; show(state.item); }));
  controls.append(buttons(["What was used", "What was looked at"], k => { state.mode = k ? "raw" : "effective"; show(state.item); }), play, slider);
  let panels = [];
  place.append(controls);
  if (data.items.length > 1) {
    list.append(...data.items.map(item => {
      const steps = item.views.some(view => view?.weights);
      const row = make("li", {role: "option", onclick: () => show(item)},
        make("span", {class: "id", title: item.id}, item.id), make("span", {class: "quiet"}, steps ? "steps" : ""));
      row.item = item;
      return row;
    }));
    place.append(make("div", {class: "browser"}, list, detail));
  } else {
    place.append(detail);
  }
  if (data.items.length) show(data.items[0]);
  return {show};

  function move(event) {
    const rows = [...list.children];
    const step = {ArrowDown: 1, ArrowUp: -1, j: 1, k: -1}[event.key];
    const next = step && rows[rows.findIndex(row => row.item === state.item) + step];
    if (!next) return;
    event.preventDefault();
    show(next.item);
    next.scrollIntoView({block: "nearest"});
  }

  function show(item) {
    stop();
    state.item = item;
    for (const row of list.children) row.setAttribute("aria-selected", row.item === item);
    const shown = data.systems.map((_, k) => k).filter(k => item.views[k] && (data.all || k === 0 || k === state.other));
    const views = shown.map(k => ({name: data.systems[k], colour: k % 8, ...unpacked(item.views[k])}));
    const scale = Math.max(...views.map(view => quantile(view[state.mode], .97)), 1e-9);
    const most = Math.max(...views.map(view => view.rows?.most ?? 0), 1e-9);
    panels = views.map(view => panel(item, view, scale, most));
    play.hidden = slider.hidden = !views.some(view => view.rows);
    slider.max = Math.max(...panels.map(one => one.steps), 0);
    slider.value = 0;
    detail.replaceChildren(
      ...(data.items.length > 1 ? [make("h3", {}, item.id)] : []),
      legend(views),
      make("div", {class: "texts wide"}, ...panels.map(one => one.element)));
    panels.forEach(one => one.rest());
  }

  function legend(views) {
    const what = state.mode === "raw" ? "the attention it got in all steps" : "the weight it was used with in all steps";
    return make("p", {class: "key"},
      make("span", {}, make("span", {class: "ramp"}), ` a token's coverage: ${what}`),
      play.hidden ? null : make("span", {}, make("span", {class: "both"}, "a word hovered"), " outline: looked at in that step, fill: used, on one scale for all steps"),
      make("span", {}, make("span", {class: "left"}, "left out?"), ` parts with at most ${data.threshold} of the average`),
      views.some(view => view.marked?.length) ? make("span", {}, make("span", {class: "gone"}, "marked"), " left out, say the model's listeners") : null,
      views.some(view => view.again?.length) ? make("span", {}, make("span", {class: "again"}, "repeated"), " three words or more that the output has had before") : null);
  }

  // ``scale``: of coverage; ``most``: the largest attention in any step, so that a shade means the same in each.
  function panel(item, view, scale, most) {
    const source = shadedSource(item.source, view, data.threshold);
    const caption = make("p", {class: "caption", "aria-live": "polite"});
    const tokens = view.output.map(text => make("span", {class: "token"}, text.trimStart()));
    view.again?.forEach(t => tokens[t].classList.add("again"));
    if (view.rows) tokens.at(-1).append(view.output.at(-1).trim() ? "" : "\u00b7");  // the end has no word of its own
    const spaced = tokens.flatMap((token, t) => [view.output[t].match(/^\s*/)[0].slice(t ? 0 : Infinity), token]);
    const output = make("div", {class: "words output", dir: "auto"}, ...(view.output.join("") ? spaced : [make("em", {}, "(empty)")]));
    if (view.rows) {
      output.tabIndex = 0;
      output.setAttribute("aria-label", "Output. Arrow keys go from step to step.");
      tokens.forEach((token, t) => {
        token.addEventListener("mouseenter", () => { if (!state.timer) row(t); });
        token.addEventListener("click", () => { stop(); row(t); });
      });
      output.addEventListener("mouseleave", () => { if (!state.timer) rest(); });
      output.addEventListener("keydown", event => {
        const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (!step) return;
        event.preventDefault();
        row(Math.min(Math.max((one.at ?? (step > 0 ? -1 : tokens.length)) + step, 0), tokens.length - 1));
      });
      source.marks.forEach((mark, s) => mark?.addEventListener("mouseenter", () => { if (!state.timer) column(s); }));
      source.element.addEventListener("mouseleave", () => { if (!state.timer) rest(); });
    }
    const element = make("article", {class: `text system s${view.colour}`},
      make("h3", {}, view.name, make("span", {}, view.rows ? "hover or tap a word" : "sums only")),
      output, caption, source.element, leastCovered(item, view, data.threshold));
    const one = {element, rest, at: null, upTo, steps: view.rows ? tokens.length : 0};
    return one;

    function rest() {
      one.at = null;
      tokens.forEach(token => shade(token, 0));
      tokens.forEach(token => token.classList.remove("now"));
      source.shade(view[state.mode], scale);
      caption.textContent = view.rows ? "The whole output." : "";
    }

    // What one step attended to.
    function row(t) {
      one.at = t;
      const weights = view.rows[state.mode](t), looked = view.rows.raw(t);
      tokens.forEach((token, k) => { shade(token, 0); token.classList.toggle("now", k === t); });
      source.shade(weights, most, looked);
      const best = looked.map((w, s) => [w, s]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([w]) => w > 0);
      const number = (w, s) => state.mode === "raw" ? w.toFixed(2) : `${weights[s].toFixed(2)} of ${w.toFixed(2)}`;
      caption.textContent = `Step ${t + 1}: ` + best.map(([w, s]) => `${view.tokens[s].trim() || "\u21b5"} ${number(w, s)}`).join(", ");
    }

    // Which steps attended to one position.
    function column(s) {
      one.at = null;
      const weights = tokens.map((_, t) => view.rows[state.mode](t)[s]);
      tokens.forEach((token, t) => { token.classList.remove("now"); shade(token, weights[t] / Math.max(...weights, 1e-9)); });
      caption.textContent = `${view.tokens[s].trim()}: coverage ${view[state.mode][s].toFixed(2)}`;
    }

    // The coverage after some steps.
    function upTo(t) {
      if (!view.rows) return;
      const last = Math.min(t, tokens.length - 1);
      const sums = view.places.map(() => 0);
      for (let k = 0; k <= last; k++) view.rows[state.mode](k).forEach((w, s) => { sums[s] += w; });
      tokens.forEach((token, k) => { shade(token, 0); token.classList.toggle("now", k === last); });
      source.shade(sums, scale);
      caption.textContent = `After step ${last + 1} of ${tokens.length}.`;
    }
  }

  // The coverage after so many steps; 0 is the whole output.
  function at(steps) {
    slider.value = steps;
    panels.forEach(one => steps ? one.upTo(steps - 1) : one.rest());
  }

  function toggle() {
    if (state.timer) { stop(); at(0); return; }
    let done = 0;
    play.textContent = "Stop";
    state.timer = setInterval(() => {
      if (done >= Number(slider.max)) { stop(); return; }
      done += 1;
      at(done);
    }, 260);
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    play.textContent = "Play the steps";
  }
}

// The source as sentences of shaded tokens. marks[s] is the element of position s, if it is of the text.
function shadedSource(text, view, threshold) {
  const order = view.places.map((at, s) => [at, s]).filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0]);
  const marks = view.places.map(() => null);
  const pieces = [];
  let next = 0, end = 0;
  for (const [first, last, share] of view.parts) {
    if (first > end) pieces.push(text.slice(end, first));
    const kind = share === null ? "unread" : share <= threshold ? "left" : "";
    const sentence = make("span", {class: `sentence ${kind}`, title: share === null ? "no share: beyond the model's length, or unknown to it" : `${share.toFixed(2)} of the average`});
    let here = first;
    while (next < order.length && order[next][0] < last) {
      const [at, s] = order[next];
      if (at > here) sentence.append(text.slice(here, at));
      here = next + 1 < order.length ? Math.min(order[next + 1][0], last) : last;
      const whole = text.slice(at, here), word = whole.trimEnd();
      const gone = view.marked?.some(([from, to]) => from <= at && at < to);
      marks[s] = make("span", {class: gone ? "token gone" : "token"}, word);
      sentence.append(marks[s], whole.slice(word.length));
      next += 1;
    }
    if (here < last) sentence.append(text.slice(here, last));
    pieces.push(sentence);
    end = last;
  }
  const element = make("div", {class: "words shaded", dir: "auto"}, ...pieces, text.slice(end));
  const part = (values, s, most) => (values ? values[s] : 0) / (most || 1);
  const shaded = (values, most, outlines = null) => marks.forEach((mark, s) => {
    if (!mark) return;
    shade(mark, part(values, s, most));
    outline(mark, part(outlines, s, most));
  });
  return {element, marks, shade: shaded};
}

function shade(element, value) {
  element.style.backgroundColor = value > .01 ? `color-mix(in srgb, var(--shade) ${(Math.min(value, 1) * 62).toFixed(1)}%, transparent)` : "";
}

function outline(element, value) {
  element.style.boxShadow = value > .01 ? `inset 0 0 0 1.5px color-mix(in srgb, var(--shade) ${(Math.min(value, 1) * 100).toFixed(1)}%, transparent)` : "";
}

function leastCovered(item, view, threshold) {
  const ranked = view.parts.filter(([, , share]) => share !== null).sort((a, b) => a[2] - b[2]);
  const unread = view.parts.length - ranked.length;
  const rows = ranked.slice(0, 5).map(([first, last, share]) => make("li", {class: share <= threshold ? "low" : ""},
    make("b", {}, share.toFixed(2)), make("span", {}, item.source.slice(first, last).trim())));
  return make("details", {class: "least", open: ""},
    make("summary", {}, `Least covered ${view.unit}`), make("ol", {}, ...rows),
    unread ? make("p", {class: "note"}, `${unread} ${view.unit} have no share: beyond the model's length, or unknown to it.`) : null);
}

// Numbers that Python packed: the largest, then square roots of shares of it as bytes.
function numbers(text) {
  const [most, bytes] = text.split(":");
  return Array.from(atob(bytes), c => Number(most) * (c.charCodeAt(0) / 255) ** 2);
}

function unpacked(view) {
  const made = {...view, raw: numbers(view.raw), effective: numbers(view.effective), rows: null};
  if (!view.weights) return made;
  const width = view.places.length, [raw, effective] = [numbers(view.attention), numbers(view.weights)];
  const row = rows => t => rows.slice(t * width, (t + 1) * width);
  made.rows = {raw: row(raw), effective: row(effective), most: raw.reduce((a, b) => Math.max(a, b), 0)};
  return made;
}

function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)];
}

// What is folded on the screen is open on paper.
function unfoldForPrint() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach(fold => { fold.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach(fold => { fold.open = false; }));
}

// Mark the section in view in the bar at the top, which shows the sections of one test set at a time.
function follow() {
  const bar = document.querySelector("nav");
  const links = new Map([...document.querySelectorAll("nav a")].map(link => [link.hash.slice(1), link]));
  const groups = [...document.querySelectorAll("nav .group")];
  const open = group => groups.forEach(one => one.classList.toggle("away", one !== group));
  if (groups.length) open(groups[0]);
  const seen = new IntersectionObserver(entries => {
    for (const {target, isIntersecting} of entries) {
      const link = links.get(target.id);
      if (!isIntersecting || !link) continue;
      links.forEach(one => one.classList.remove("here"));
      link.classList.add("here");
      if (link.closest(".group")) open(link.closest(".group"));
      bar.scrollLeft = link.offsetLeft - bar.clientWidth / 3;
    }
  }, {rootMargin: "-20% 0px -75% 0px"});
  document.querySelectorAll("section[id]").forEach(section => seen.observe(section));
}

// A waveform that plays from where it is clicked.
function sound(place, data) {
  const audio = make("audio", {controls: "", src: `data:audio/wav;base64,${data.wave}`});
  const wave = place.parentElement.querySelector(".wave"), now = wave.querySelector(".now");
  wave.addEventListener("click", event => {
    const box = wave.getBoundingClientRect();
    audio.currentTime = (event.clientX - box.left) / box.width * data.seconds;
    audio.play();
  });
  audio.addEventListener("timeupdate", () => {
    const x = audio.currentTime / data.seconds * wave.viewBox.baseVal.width;
    now.setAttribute("x1", x);
    now.setAttribute("x2", x);
  });
  place.append(audio);
}

start();
