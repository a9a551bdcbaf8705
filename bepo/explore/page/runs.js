// Every run in a table that can be filtered and sorted, and which test tasks each of them solves.

const COLUMNS = {name: "Run", success: "Held-out success", env: "Environment", id: "Id", tier: "Tier", status: "Updates", differs: "Differs in", study: "Study"};
const order = {by: "success", down: true, text: "", env: "", tier: ""};

function shownRuns(index) {
  const words = order.text.toLowerCase().split(" ").filter(Boolean);
  const kept = index.runs.filter(run => (!order.env || run.env === order.env) && (!order.tier || run.tier === order.tier)
    && words.every(word => Object.keys(COLUMNS).some(name => String(run[name] ?? "").toLowerCase().includes(word))));
  const sign = order.down ? -1 : 1, value = run => run[order.by] ?? (order.by === "success" ? -1 : "");
  return kept.sort((a, b) => sign * (typeof value(a) === "number" ? value(a) - value(b) : String(value(a)).localeCompare(String(value(b)), "en", {numeric: true})));
}

function spark(run) {
  if (run.curve.length < 2) return "";
  const last = run.curve.at(-1)[0], d = run.curve.map(([x, y]) => `${(x / last * 96).toFixed(1)},${(19 - 18 * y).toFixed(1)}`).join("L");
  return s("svg", {width: 98, height: 20, viewBox: "0 0 98 20", role: "img", "aria-label": "training success over updates"},
    s("title", {}, `training success: ${number(run.curve[0][1])} to ${number(run.curve.at(-1)[1])} at update ${last}`), s("path", {d: "M" + d, fill: "none", stroke: run.colour, "stroke-width": 1.5}));
}

function runsTable(index, redraw) {
  const heads = Object.entries(COLUMNS).map(([name, title]) => h("button", {style: "border:0;background:none;padding:0;color:inherit", onclick: () => { order.down = order.by === name ? !order.down : name === "success"; order.by = name; redraw(name); }, "data-column": name},
    title + (order.by === name ? (order.down ? " ↓" : " ↑") : "")));
  const rows = shownRuns(index).map(run => [h("span", {}, dot(run), run.page ? h("a", {href: run.page}, run.name) : run.name),
    run.success === null ? "–" : h("span", {}, h("span", {class: "bar", "aria-hidden": "true"}, h("i", {style: `width:${100 * run.success}%`})), percent(run.success)),
    run.env, h("code", {}, run.id), run.tier, h("span", {}, run.status, " ", spark(run)), h("span", {class: "small"}, run.differs), run.study]);
  return table(heads, rows);
}

function taskMap(index, set) {
  const runs = shownRuns(index).filter(run => run.task_set === set && run.solved.length), tasks = index.tasks[set];
  if (!runs.length) return h("p", {class: "quiet"}, "No run that is shown has final test episodes on these tasks.");
  const mean = tasks.map((_, t) => runs.reduce((sum, run) => sum + run.solved[t], 0) / runs.length);
  const places = tasks.map((_, t) => t).sort((a, b) => mean[b] - mean[a]);
  const size = Math.max(5, Math.min(22, Math.floor(860 / tasks.length)));
  const title = (run, t) => `${run.name}: task ${tasks[t].id} ${tasks[t].kind}, solved in ${percent(run.solved[t])} of its passes`;
  const cell = (run, t) => h(run.page ? "a" : "span", {class: "cell", tabindex: "-1", style: `display:block;height:1.2rem;background-color:color-mix(in srgb, var(--accent) ${Math.round(100 * run.solved[t])}%, var(--card))`, title: title(run, t),
    href: run.page ? `${run.page}#${new URLSearchParams({run: run.id, from: "test episodes", episode: t + 1})}` : null});
  return h("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": "Success by run and task"}, h("div", {class: "strips", style: `grid-template-columns: 13rem repeat(${tasks.length}, ${size}px) auto`},
    runs.map(run => [h("div", {class: "name"}, dot(run), run.name), ...places.map(t => cell(run, t)), h("div", {class: "end"}, percent(run.success))]).flat()));
}

async function startRuns() {
  const index = await unpack("index"), place = h("div"), map = h("div"), sets = Object.keys(index.tasks);
  let set = sets[0];
  const distinct = name => [["", "any"], ...[...new Set(index.runs.map(run => run[name]))].sort().map(x => [x, x])];
  const count = h("span", {class: "quiet small", role: "status"});
  const draw = focus => {
    place.replaceChildren(runsTable(index, draw));
    if (typeof focus === "string") place.querySelector(`[data-column=${focus}]`).focus();
    map.replaceChildren(set ? taskMap(index, set) : h("p", {class: "quiet"}, "No run is complete yet."));
    count.textContent = `${shownRuns(index).length} of ${unit(index.runs.length, "run")}`;
  };
  byId("runs").append(h("div", {class: "row"}, h("label", {}, "Search", h("input", {type: "search", oninput: event => { order.text = event.target.value; draw(); }})),
    choice("Environment", distinct("env"), "", value => { order.env = value; draw(); }), choice("Tier", distinct("tier"), "", value => { order.tier = value; draw(); }), count), place,
    h("p", {class: "quiet small"}, "A name with a link has a page beside this one; python -m bepo.view ID writes one."));
  byId("tasks").append(sets.length > 1 ? choice("Test tasks", sets.map(key => [key, `${index.tasks[key].length} tasks of ${index.runs.find(run => run.task_set === key).env} (${key})`]), set, value => { set = value; draw(); }) : "", map,
    h("p", {class: "quiet small"}, "A row is a run, a column a test task, the most often solved first; the fuller its colour, the more evaluation passes solve it. A cell leads to the episode where the run has a page."));
  draw();
  document.body.dataset.ready = "true";
}

startRuns();
