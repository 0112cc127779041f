// The studio: what is asked for, the texts that wait, and one of them as it is written. The views are those of the report.

const offered = JSON.parse(document.getElementById("studio-data").textContent);
const element = id => document.getElementById(id);
const LABELS = {
  beams: "Beams", max_length: "Tokens at most", min_length: "Tokens at least",
  block_ngrams: "No n-gram twice, n", repetition_penalty: "Repetition penalty",
};
const STATES = {waiting: "waiting", writing: "writing", done: "done", stopped: "stopped", failed: "failed"};
const studio = {number: null, seen: null, following: false, view: null, shape: "", lines: ""};

function begin() {
  element("rules").append(...offered.rules.map(rule => make("option", {value: rule})));
  element("decoding").append(...Object.entries(offered.decoding).map(([name, value]) => numberField(name, value)));
  const first = offered.models.length > 1
    ? offered.models.slice(0, offered.most.answers).map((_, k) => [k, ""])
    : [[0, ""], [0, offered.models[0].rule ? "plain" : "training-free"]];
  first.forEach(([model, rule]) => addAnswer(model, rule));
  element("more").addEventListener("click", () => addAnswer(0, "").querySelector("input").focus());
  element("sample").hidden = !offered.models[0].sample;
  element("sample").addEventListener("click", () => { write(offered.models[0].sample); element("text").focus(); });
  element("text").addEventListener("input", size);
  element("text").addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element("ask").requestSubmit();
  });
  element("ask").addEventListener("submit", event => { event.preventDefault(); submit(); });
  write(offered.models[0].sample);
  watchTasks();
}

function write(text) {
  element("text").value = text;
  size();
}

function size() {
  element("size").textContent = `${element("text").value.length.toLocaleString("en")} characters`;
}

function numberField(name, value) {
  const whole = Number.isInteger(value) && name !== "repetition_penalty";
  const input = make("input", {type: "number", name, min: name === "min_length" || name === "block_ngrams" ? 0 : whole ? 1 : .1, step: whole ? 1 : .1, value});
  return make("label", {}, LABELS[name], input);
}

// One output to ask for: a model, a rule (empty: as it was saved), and on how many of its last layers.
function addAnswer(model, rule) {
  const list = element("answers").querySelector("ol");
  const models = make("select", {"aria-label": "Model", onchange: () => fit()}, ...offered.models.map((one, k) => make("option", {value: k}, one.name)));
  const rules = make("input", {list: "rules", "aria-label": "Rule", spellcheck: "false", autocomplete: "off"});
  const layers = make("select", {"aria-label": "Layers"});
  const remove = make("button", {type: "button", class: "remove", "aria-label": "Remove this output", title: "Remove this output", onclick: () => { row.remove(); limit(); }}, "\u00d7");
  const row = make("li", {}, models, rules, layers, remove);
  models.hidden = offered.models.length === 1;
  row.asked = () => ({model: Number(models.value), rule: rules.value, layers: layers.hidden || !layers.value ? null : Number(layers.value)});
  models.value = model;
  rules.value = rule;
  list.append(row);
  fit();
  limit();
  return row;

  function fit() {
    const one = offered.models[Number(models.value)];
    rules.placeholder = `as saved: ${one.rule ?? "plain"}`;
    layers.hidden = !one.layers;
    layers.replaceChildren(make("option", {value: ""}, "usual layers"),
      ...Array.from({length: one.layers ?? 0}, (_, k) => make("option", {value: k + 1}, k ? `last ${k + 1} layers` : "last layer")));
  }

  function limit() {
    const rows = [...list.children];
    element("more").hidden = rows.length >= offered.most.answers;
    rows.forEach(one => { one.querySelector(".remove").hidden = rows.length === 1; });
  }
}

async function submit() {
  const decoding = {};
  for (const input of element("decoding").querySelectorAll("input")) decoding[input.name] = input.valueAsNumber;
  const asked = {text: element("text").value, answers: [...element("answers").querySelectorAll("li")].map(row => row.asked()), decoding};
  const answer = await ask("tasks", asked);
  complain(answer.error ?? "");
  if (answer.error) return;
  studio.number = answer.number;
  studio.seen = null;
  element("seen").hidden = false;
  watchTasks();
  element("seen").scrollIntoView({behavior: "smooth", block: "start"});
}

function complain(sentence) {
  element("wrong").textContent = sentence;
  element("wrong").hidden = !sentence;
}

async function ask(where, body) {
  try {
    const answer = await fetch(where, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
    if (answer.status === 204) return {};
    return answer.ok || answer.status === 422 ? await answer.json() : {error: await answer.text()};
  } catch {
    return {error: "The studio does not answer: was it stopped?"};
  }
}

// Look at the tasks as long as something is being written.
async function watchTasks() {
  if (studio.following) return;
  studio.following = true;
  try {
    for (let active = true; active;) {
      const number = studio.number;
      const answer = await fetch(`tasks?seen=${studio.seen ?? ""}${number === null ? "" : `&task=${number}`}`);
      if (!answer.ok) throw new Error(await answer.text());
      const found = await answer.json();
      const changed = found.version !== studio.seen || number !== studio.number;
      studio.seen = found.version;
      if (studio.number === null && found.tasks.length) { studio.number = found.tasks.at(-1).number; studio.seen = null; continue; }
      if (changed) show(found);
      active = studio.number !== number || found.tasks.some(task => task.state === "waiting" || task.state === "writing");
    }
  } catch {
    complain("The studio does not answer: was it stopped?");
  } finally {
    studio.following = false;
  }
}

function show({tasks, task}) {
  element("seen").hidden = !tasks.length;
  const lines = JSON.stringify([tasks, studio.number]);
  if (lines !== studio.lines) element("queue").replaceChildren(...tasks.map(queued));  // else a focused button would go
  studio.lines = lines;
  if (!task || task.number !== studio.number) return;
  element("state").replaceChildren(...task.answers.map((answer, k) => described(answer, k, task.number)));
  shown(task);
  element("compared").hidden = !task.compared;
  if (task.compared) {
    const names = task.answers.map(one => one.name);
    element("compared").querySelector(".detail").replaceChildren(
      ...sideBySide(task.compared, names, names.map((_, k) => k), () => ""));
  }
}

function queued(task) {
  const active = task.state === "waiting" || task.state === "writing";
  const pick = make("button", {type: "button", class: "pick", "aria-pressed": task.number === studio.number, onclick: () => { studio.number = task.number; studio.seen = null; watchTasks(); }},
    make("span", {class: `dot ${task.state}`}), `${task.number}. ${task.title}`, make("span", {class: "quiet"}, ` ${STATES[task.state]}`));
  const stop = make("button", {type: "button", class: "stop", onclick: () => ask(`tasks/${task.number}/stop`, {})}, "Stop");
  return make("li", {}, pick, active ? stop : null);
}

function described(answer, k, number) {
  const ended = answer.view && answer.state !== "writing";
  return make("article", {class: `said system s${k % 8}`},
    make("h3", {}, answer.name, make("span", {class: `quiet ${answer.state}`}, STATES[answer.state])),
    answer.figures.length ? make("p", {class: "figures"}, answer.figures.join(" \u00b7 ")) : null,
    ...answer.notes.map(note => make("p", {class: "missing"}, note)),
    ended ? make("p", {class: "figures"}, make("a", {href: `tasks/${number}/${k}.svg`, download: ""}, "Picture of what was left out")) : null);
}

// The coverage view of the report. It stays while the same outputs are written, so that what was chosen in it stays.
function shown(task) {
  const names = task.answers.map(one => one.name), shape = JSON.stringify([task.number, names]);
  const item = {id: String(task.number), source: task.text, views: task.answers.map(one => one.view)};
  if (shape !== studio.shape) {
    studio.shape = shape;
    const place = make("div", {class: "view"});
    element("read").replaceChildren(place);
    studio.view = coverage(place, {systems: names, items: [], threshold: offered.threshold, all: true});
  }
  const before = [...element("read").querySelectorAll(".shaded")].map(one => one.scrollTop);
  if (item.views.some(Boolean)) studio.view.show(item);
  element("read").querySelectorAll(".shaded").forEach((one, k) => { one.scrollTop = before[k] ?? 0; });
  element("read").hidden = !item.views.some(Boolean);
}

begin();
