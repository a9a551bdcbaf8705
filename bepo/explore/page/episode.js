// One episode: facts, strips, the step at hand, and the group's graph.

class EpisodeView {
  constructor(index, changed) {
    this.index = index; this.changed = changed; this.strip = 0;
    this.box = h("div", {"aria-live": "off"});
  }

  async open(entry, step = 0) {
    this.entry = entry;
    const group = await chunk(entry.chunk);
    if (this.entry !== entry) return;  // another was opened meanwhile
    this.group = group; this.episode = group.episodes[entry.member];
    this.first = group.episodes.slice(0, entry.member).reduce((sum, e) => sum + e.action.length, 0);
    this.strip = Math.min(this.strip, Math.max(group.strips.length - 1, 0));
    this.step = Math.min(Math.max(step, 0), this.episode.action.length - 1);
    this.draw();
  }

  colour(strip) { this.strip = strip; this.draw(); this.box.querySelector("[aria-pressed=true]")?.focus(); }

  go(t) {
    this.step = t;
    this.onstep.forEach(show => show(t));
    this.changed(this.entry, t);
  }

  draw() {
    const {entry, episode, group} = this, n = episode.action.length;
    this.onstep = [];
    const siblings = this.index.episodes.filter(e => e.chunk === entry.chunk);
    const links = siblings.length < 2 ? null : h("span", {class: "row"}, "Group: ", siblings.map(e => h("a", {href: address(this.index, e, 0), title: `episode ${e.member + 1}: ${e.end}, ${unit(e.steps, "step")}`,
      "aria-current": e === entry ? "true" : null, class: e.end === "success" ? "good" : "bad", style: e === entry ? "font-weight:700;text-decoration:underline" : null}, MARK[e.end] + (e.member + 1))));
    const fact = (name, value) => h("span", {}, h("span", {class: "quiet"}, name + " "), value);
    const run = this.index.runs[entry.run];
    const facts = h("div", {class: "card"}, h("h3", {}, dot(run), `${run.name}, ${entry.source}`), h("div", {class: "facts"},
      fact("task", h("code", {}, entry.task)), entry.kind ? fact("type", entry.kind) : null, fact("outcome", h("span", {class: entry.end === "success" ? "good" : "bad"}, entry.end === "truncation" ? "out of steps" : entry.end)),
      fact("return", number(entry.return)), fact("score", number(entry.score)), fact("steps", String(n)), fact("valid actions", percent(entry.valid)),
      entry.gate === null ? null : fact("gate open", percent(entry.gate)), links, h("a", {href: address(this.index, entry, this.step), title: "the address of this episode"}, "link")));
    const slider = h("input", {type: "range", min: 0, max: n - 1, value: this.step, "aria-label": "Step", style: "max-width:38rem", oninput: event => this.go(Number(event.target.value))});
    const place = h("span", {class: "num small"});
    this.onstep.push(t => { slider.value = t; place.textContent = `step ${t + 1} of ${n}`; });
    const strips = h("div", {class: "card"}, h("div", {class: "row"}, h("h3", {}, "Advantage of every step"), place), slider, stripTable(this), this.note());
    this.box.replaceChildren(facts, strips, h("div", {class: "card"}, this.detail()), h("div", {class: "card"}, h("h3", {}, group.episodes.length > 1 ? "Rollout graph of the group" : "States of the episode"), graphView(this), this.legend()));
    this.go(this.step);
  }

  note() {
    const many = this.group.strips.length;
    return h("p", {class: "quiet small"}, !many ? "Test tasks are played once: there is no group to compare an episode with, so no estimator has an advantage here. Episodes of training updates have."
      : "Blue is above zero, orange below; each row has its own scale, that of its group. ● is the run's own estimator with its settings, the others have their defaults. Press a name to colour the graph by it.");
  }

  legend() {
    return h("p", {class: "quiet small"}, "A circle is a state, its number the fixed-point value; filled: visited twice with different successors, where the paper's gate is open. Thick arrows: the episode's path. Drag to move; the wheel zooms after a click into the graph, or with Ctrl.");
  }

  detail() {
    const {episode, group} = this, text = i => i === undefined || i === null ? null : group.texts[i], box = h("div", {class: "step"});
    this.onstep.push(t => {
      const picture = episode.image && group.images[episode.image[t]], seen = text(episode.observation[t]) ?? "";
      const grid = /^[^ \n]{3,}(\n[^ \n]+)+$/.test(seen);
      const action = text(episode.action[t]), response = text(episode.response?.[t]), prompt = text(episode.prompt?.[t]);
      box.replaceChildren(
        h("div", {}, h("h3", {}, `Observation at step ${t + 1}`), h("div", {class: "observation" + (grid ? " grid" : "")}, picture ? h("img", {src: picture, alt: seen}) : h("pre", {}, seen))),
        h("div", {}, h("h3", {}, "Response"), h("div", {class: "observation"}, h("pre", {}, response ?? "not kept: the run's tokenizer is not there")),
          h("p", {class: "facts"}, h("span", {}, h("span", {class: "quiet"}, "action "), h("b", {}, action ?? "none could be read")), h("span", {class: episode.valid[t] ? "" : "bad"}, episode.valid[t] ? "valid" : "invalid"), h("span", {}, h("span", {class: "quiet"}, "reward "), number(episode.reward[t]))),
          prompt === null ? null : h("details", {open: this.prompt || null, ontoggle: event => { this.prompt = event.target.open; }}, h("summary", {}, "Prompt"), h("div", {class: "observation"}, h("pre", {}, prompt)))));
    });
    return box;
  }
}
