// A study as methods: runs that differ only in seeds are one row and one line with a band.

const mean = values => values.reduce((sum, x) => sum + x, 0) / values.length;
const deviation = values => values.length < 2 ? 0 : Math.sqrt(values.reduce((sum, x) => sum + (x - mean(values)) ** 2, 0) / (values.length - 1));
const shown = {text: "", runs: false};
const wanted = (...texts) => shown.text.toLowerCase().split(" ").filter(Boolean).every(word => texts.some(text => String(text).toLowerCase().includes(word)));
const mostBands = 4;  // bands of more methods cover each other: only that of the one pointed at is drawn
const linesTitle = index => index.methods.length > mostBands ? "methods: mean; point at a name for its standard deviation" : "methods: mean and one standard deviation";
const isStudy = index => index.methods.length < index.runs.length;
const rateOf = (index, method) => mean(method.runs.map(i => index.runs[i].success).filter(x => x !== null)) || 0;
const chosenMethods = index => index.methods.filter(method => wanted(method.name, ...Object.entries(method.settings).map(pair => pair.join("=")), ...method.runs.map(i => index.runs[i].id)));

function methodsTable(index) {
  const rows = chosenMethods(index).sort((a, b) => rateOf(index, b) - rateOf(index, a)).map(method => {
    const own = method.runs.map(i => index.runs[i]), rates = own.map(run => run.success).filter(x => x !== null);
    const bar = rates.length && h("span", {class: "bar", "aria-hidden": "true"}, h("i", {style: `width:${100 * mean(rates)}%`}));
    return [h("span", {}, dot(method), method.name), own[0].env, String(own.length),
      rates.length ? h("span", {}, bar, percent(mean(rates)), rates.length > 1 ? h("span", {class: "quiet"}, ` ± ${number(100 * deviation(rates), 1)}`) : "") : "–",
      rates.length < own.length ? `${rates.length} of ${own.length} complete` : "complete"];
  });
  return table(["Method", "Environment", "Runs", "Held-out success", "Status"], rows, [2]);
}

function methodBar(index, redraw) {
  return h("div", {class: "row", style: "margin-top:1.2rem"}, h("label", {}, "Search", h("input", {type: "search", placeholder: "method, setting or run",
    oninput: event => { shown.text = event.target.value; redraw(); }})), h("span", {class: "quiet small", role: "status"}, ""));
}

// A line for each method: the mean of its runs at each update, and one sample standard deviation to either side.
function methodLines(index, metric, smooth) {
  const byRun = new Map(index.curves[metric].map(({run, points}) => [run, smoothed(points, smooth)]));
  return chosenMethods(index).map(method => {
    const at = new Map();
    for (const i of method.runs) for (const [x, y] of byRun.get(i) ?? []) at.set(x, [...at.get(x) ?? [], y]);
    const updates = [...at.keys()].sort((a, b) => a - b);
    return {run: method, points: updates.map(x => [x, mean(at.get(x))]), band: updates.map(x => [x, mean(at.get(x)) - deviation(at.get(x)), mean(at.get(x)) + deviation(at.get(x))])};
  }).filter(line => line.points.length);
}

function runLines(index, metric, smooth) {
  return index.curves[metric].filter(({run}) => wanted(index.runs[run].name, index.runs[run].id, methodOf(index, run).name))
    .map(({run, points}) => ({run: index.runs[run], points: smoothed(points, smooth)}));
}

const methodOf = (index, run) => index.methods.find(method => method.runs.includes(run));

function typesOfMethods(index) {
  const found = new Map();
  for (const row of index.types) {
    const method = methodOf(index, row.run), key = index.methods.indexOf(method) + "|" + row.kind;
    found.set(key, [...found.get(key) ?? [], {...row, method}]);
  }
  return [...found.values()].map(rows => {
    const before = rows.map(row => row.before).filter(x => x !== null);
    return {...rows[0], owner: rows[0].method, before: before.length ? mean(before) : null, after: mean(rows.map(row => row.after)), episodes: rows.reduce((n, row) => n + row.episodes, 0)};
  }).filter(row => chosenMethods(index).includes(row.owner));
}
