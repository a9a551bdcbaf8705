// Two runs on the same test tasks: who solved which, and the first step at which they act differently.

function showCompare(index) {
  const {a, b, pairs} = index.compare, section = byId("compare"), runs = [index.runs[a], index.runs[b]];
  const names = runs.map((run, i) => `${"AB"[i]}: ${run.name}`);
  if (!pairs.length) return section.append(h("p", {class: "quiet"}, index.compare.why));
  const solved = (pair, side) => index.episodes[pair[side]].end === "success";
  const classes = {both: p => solved(p, "a") && solved(p, "b"), a: p => solved(p, "a") && !solved(p, "b"), b: p => !solved(p, "a") && solved(p, "b"), none: p => !solved(p, "a") && !solved(p, "b")};
  const count = key => pairs.filter(classes[key]).length;
  section.append(h("p", {}, `${names[0]} and ${names[1]} on ${pairs.length} shared test tasks: both solve ${count("both")}, only A ${count("a")}, only B ${count("b")}, neither ${count("none")}; ${pairs.filter(p => p.first === null).length} episodes are equal.`));
  const box = h("div"), picker = h("select", {"aria-label": "Task", onchange: () => draw()});
  const fill = key => {
    const kept = pairs.filter(p => !key || classes[key](p));
    picker.replaceChildren(...kept.map(p => h("option", {value: pairs.indexOf(p)}, `${p.kind || "task"} ${p.task.slice(0, 8)}: A ${MARK[index.episodes[p.a].end]} B ${MARK[index.episodes[p.b].end]}, ${p.first === null ? "equal" : "differ at step " + (p.first + 1)}`)));
    draw();
  };
  async function draw() {
    const pair = pairs[picker.value];
    if (!pair) return box.replaceChildren(h("p", {class: "quiet"}, "No such task."));
    const entries = [index.episodes[pair.a], index.episodes[pair.b]], groups = await Promise.all(entries.map(e => chunk(e.chunk)));
    const episodes = entries.map((e, i) => groups[i].episodes[e.member]), most = Math.max(...episodes.map(e => e.action.length));
    const cell = (i, t) => {
      const e = episodes[i], text = k => k === null || k === undefined ? "none" : groups[i].texts[k];
      if (t >= e.action.length) return h("div", {class: "quiet small"}, t === e.action.length ? `ended: ${entries[i].end}` : "");
      return h("div", {class: t === pair.first ? "differs" : ""}, h("a", {href: address(index, entries[i], t)}, `${t + 1} `), h("b", {}, text(e.action[t])), h("span", {class: "quiet small"}, ` reward ${number(e.reward[t])}`),
        t === pair.first ? h("pre", {}, text(e.observation[t])) : null);
    };
    box.replaceChildren(h("div", {class: "both"}, names.map((name, i) => h("h3", {}, dot(runs[i]), name)), Array.from({length: most + 1}, (_, t) => [cell(0, t), cell(1, t)]).flat()));
  }
  section.append(h("div", {class: "row"}, choice("Tasks", [["", "all"], ["both", "both solve"], ["a", "only A"], ["b", "only B"], ["none", "neither"]], "", fill), picker), h("div", {class: "card", style: "margin-top:.7rem"}, box));
  fill("");
}
