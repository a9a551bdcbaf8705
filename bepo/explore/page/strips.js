// Heat strips: a row an estimator, a column a step; below an estimator the parts that its advantage is made of.

const tint = (value, limit) => !value || !limit ? "" : `background-color: rgb(var(--${value > 0 ? "plus" : "minus"}) / ${(.12 + .88 * Math.min(Math.abs(value) / limit, 1)).toFixed(2)})`;
const shade = value => value ? `background-color: color-mix(in srgb, var(--open) ${100 * value}%, transparent)` : "";
const largest = values => values.reduce((most, v) => Math.max(most, Math.abs(v ?? 0)), 0);

function stripTable(view) {
  const {group, episode, first} = view, n = episode.action.length, {texts} = group;
  const longest = Math.max(...episode.action.map(a => a === null ? 4 : texts[a].length));
  const size = Math.max(16, Math.min(110, Math.max(44, 6 * longest), Math.floor(620 / n)));
  const grid = h("div", {class: "strips", style: `grid-template-columns: 8.5rem repeat(${n}, ${size}px) auto`, onclick: event => {
    const cell = event.target.closest(".cell"); if (cell) view.go(Number(cell.dataset.t)); }});
  const word = (text, t, extra = "") => h("div", {class: "cell word" + extra, "data-t": t, title: text}, text);
  grid.append(h("div", {class: "name quiet"}, "action"), ...episode.action.map((a, t) => word(a === null ? "none" : texts[a], t, episode.valid[t] ? "" : " invalid")), h("div"));
  grid.append(h("div", {class: "name quiet"}, "reward"), ...episode.reward.map((r, t) => word(r ? number(r, Number.isInteger(r) ? 0 : Math.abs(r) < .1 ? 2 : 1) : "·", t)), h("div", {class: "end quiet"}, ""));
  const values = [];
  const row = (name, all, part) => {
    const limit = largest(all), paint = part && name.textContent === "gate" ? shade : tint, end = h("div", {class: "end" + (part ? " part" : "")});
    values.push(t => { end.textContent = number(all[first + t]); });
    grid.append(name, ...Array.from({length: n}, (_, t) => h("div", {class: "cell" + (part ? " part" : ""), "data-t": t, style: paint(all[first + t], limit), title: `step ${t + 1}: ${number(all[first + t], 3)}`})), end);
  };
  group.strips.forEach((strip, i) => {
    row(h("button", {class: "name", "aria-pressed": String(i === view.strip), title: strip.own ? "the run's own estimator, with its settings" : "with default settings; press to colour the graph", onclick: () => view.colour(i)}, (strip.own ? "● " : "") + strip.label), strip.advantage, false);
    if (strip.own || strip.parts.gate || strip.parts.weight) for (const [name, all] of Object.entries(strip.parts)) row(h("div", {class: "name part"}, name), all, true);
  });
  view.onstep.push(t => {
    grid.querySelectorAll(".now").forEach(cell => cell.classList.remove("now"));
    grid.querySelectorAll(`[data-t="${t}"]`).forEach(cell => cell.classList.add("now"));
    values.forEach(show => show(t));
  });
  return h("div", {class: "scroll"}, grid);
}
