// The list of episodes, and what limits it.

const MARK = {success: "✓", failure: "✗", truncation: "…"};
const filters = {run: "", source: "", end: "", kind: "", gate: "", least: "", most: "", order: "order"};

function meets(episode) {
  const {run, source, end, kind, gate, least, most} = filters;
  return (run === "" || episode.run === Number(run)) && (!source || episode.source === source) && (!end || episode.end === end)
    && (!kind || episode.kind === kind) && (least === "" || episode.steps >= Number(least)) && (most === "" || episode.steps <= Number(most))
    && (!gate || (gate === "unknown" ? episode.gate === null : episode.gate !== null && (gate === "open" ? episode.gate > 0 : episode.gate === 0)));
}

const ORDERS = {
  order: ["as collected", () => 0], return: ["highest return", (a, b) => b.return - a.return], low: ["lowest return", (a, b) => a.return - b.return],
  long: ["longest", (a, b) => b.steps - a.steps], short: ["shortest", (a, b) => a.steps - b.steps],
  mixed: ["most mixed group", (a, b) => a.mixed - b.mixed || a.chunk - b.chunk], gate: ["gate most open", (a, b) => (b.gate ?? -1) - (a.gate ?? -1)],
};

class EpisodeList {
  constructor(index, open) {
    this.index = index; this.open = open;
    this.box = h("div", {class: "list", role: "listbox", "aria-label": "Episodes", tabindex: "0", onkeydown: event => this.key(event),
      onclick: event => { const item = event.target.closest(".item"); if (item) this.open(index.episodes[item.dataset.n]); }});
    this.count = h("span", {class: "quiet small", role: "status"});
  }

  bar() {
    const distinct = name => [...new Set(this.index.episodes.map(e => e[name]))], set = name => value => { filters[name] = value; this.draw(); };
    const kinds = distinct("kind").filter(Boolean).sort(), any = ["", "any"];
    const limit = (name, word) => h("input", {type: "number", min: 1, placeholder: word, "aria-label": `steps, ${word}`, oninput: event => set(name)(event.target.value)});
    return h("div", {class: "row"},
      this.index.runs.length > 1 ? choice("Run", [any, ...this.index.runs.map((run, i) => [i, `${run.name}`])], filters.run, set("run")) : null,
      choice("From", [any, ...distinct("source").map(x => [x, x])], filters.source, set("source")),
      choice("Outcome", [any, ["success", "success"], ["failure", "failure"], ["truncation", "out of steps"]], "", set("end")),
      kinds.length ? choice("Task type", [any, ...kinds.map(x => [x, x])], "", set("kind")) : null,
      choice("Gate", [any, ["open", "opens"], ["closed", "never opens"], ["unknown", "unknown"]], "", set("gate")),
      h("label", {}, "Steps", limit("least", "from"), limit("most", "to")),
      choice("Order", Object.entries(ORDERS).map(([key, [text]]) => [key, text]), filters.order, set("order")), this.count);
  }

  draw() {
    this.shown = this.index.episodes.filter(meets);
    if (filters.order !== "order") this.shown.sort(ORDERS[filters.order][1]);
    const several = this.index.runs.length > 1;
    this.box.replaceChildren(...this.shown.map(e => h("div", {class: "item", role: "option", id: "item" + e.n, "data-n": e.n, "aria-selected": "false"},
      h("span", {class: e.end === "success" ? "good" : "bad", title: e.end}, MARK[e.end]), h("span", {}, e.kind || "task " + e.task.slice(0, 8)),
      h("span", {class: "num quiet"}, number(e.return, Math.abs(e.return) < 1 ? 2 : 1)),
      h("span", {class: "under"}, `${several ? this.index.runs[e.run].name + ", " : ""}${e.source} · ${unit(e.steps, "step")}${e.gate === null ? "" : ` · gate ${Math.round(100 * e.gate)} %`}`))));
    this.count.textContent = `${this.shown.length.toLocaleString("en")} of ${this.index.episodes.length.toLocaleString("en")} episodes`;
    this.mark(this.current, false);
  }

  mark(episode, scroll = true) {
    this.box.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    this.current = episode;
    const item = episode && byId("item" + episode.n);
    if (!item) return;
    item.setAttribute("aria-selected", "true");
    this.box.setAttribute("aria-activedescendant", item.id);
    if (scroll) this.box.scrollTop = Math.min(Math.max(this.box.scrollTop, item.offsetTop + item.offsetHeight - this.box.offsetTop - this.box.clientHeight), item.offsetTop - this.box.offsetTop);
  }

  key(event) {
    const move = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[event.key];
    if (!move || !this.shown.length) return;
    event.preventDefault();
    const at = this.shown.indexOf(this.current) + move;
    this.open(this.shown[Math.min(Math.max(at, 0), this.shown.length - 1)]);
  }
}
