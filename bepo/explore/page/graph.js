// The group's rollout graph: states by the fewest steps from the start, the episode's path in it, zoom and drag.

const WIDE = 104, RATIO = 2.1;  // RATIO: width over height that a graph is stretched to, if it is flatter
const LETTER = 5.2, NARROW = 460;  // the width of an edge's letter; what a narrow screen shows of a graph at first

function graphView(view) {
  const {group, episode} = view, {nodes, edges} = group.graph, {texts} = group;
  const tall = Math.max(...nodes.map(node => node.y)) - Math.min(...nodes.map(node => node.y));
  const high = Math.min(Math.max(Math.max(...nodes.map(node => node.x)) * WIDE / RATIO / (tall || 1), 56), 130);
  const xy = new Map(nodes.map(node => [node.id, [node.x * WIDE, node.y * high]]));
  const path = new Set(episode.state.map((state, t) => state + ">" + episode.next[t]));
  const strip = group.strips[view.strip], mean = new Map();
  if (strip) group.episodes.flatMap(e => e.state.map((state, t) => state + ">" + e.next[t])).forEach((edge, i) => {
    const [sum, count] = mean.get(edge) ?? [0, 0];
    mean.set(edge, [sum + (strip.advantage[i] ?? 0), count + 1]);
  });
  const limit = largest(strip?.advantage ?? []);
  const arrows = s("g"), labels = s("g"), circles = s("g"), corners = [...xy.values()].flatMap(([x, y]) => [[x - 46, y], [x + 46, y]]);
  for (const [source, target, actions] of edges) {
    const name = source + ">" + target, on = path.has(name), count = actions.reduce((sum, a) => sum + a[1], 0);
    const [a, b] = [xy.get(source), xy.get(target)], [sum, times] = mean.get(name) ?? [0, 1], value = sum / times;
    const words = actions.map(([action, k]) => (action === null ? "none" : texts[action]) + (k > 1 ? ` ×${k}` : "")).join(", ");
    const [d, middle] = curve(a, b, source === target);
    const colour = limit && value ? `rgb(var(--${value > 0 ? "plus" : "minus"}) / ${(.25 + .75 * Math.abs(value) / limit).toFixed(2)})` : "var(--quiet)";
    arrows.append(s("path", {class: "edge" + (on ? "" : " faint"), d, stroke: colour, "stroke-width": (on ? 1.6 : .8) + .5 * Math.min(count, 6), "marker-end": "url(#arrow)"},
      s("title", {}, `${words}${strip ? `: mean advantage ${number(value)}` : ""}`)));
    const short = words.length > 22 ? words.slice(0, 21) + "…" : words, half = short.length * LETTER / 2;
    corners.push([middle[0] - half, middle[1]], [middle[0] + half, middle[1]]);
    labels.append(s("text", {class: "edgetext" + (on ? "" : " faint"), x: middle[0], y: middle[1]}, short));
  }
  const visited = new Set([...episode.state, episode.next.at(-1)]), drawn = new Map();
  for (const node of nodes) {
    const [x, y] = xy.get(node.id), ends = node.id < 0, open = node.visits > 1 && node.branches > 1;
    const shape = ends ? s("rect", {x: -13, y: -13, width: 26, height: 26, rx: 6}) : s("circle", {r: 14});
    const mark = s("g", {class: "node" + (open ? " open" : "") + (visited.has(node.id) ? " path" : " faint"), transform: `translate(${x},${y})`,
      onclick: () => { const t = episode.state.indexOf(node.id); if (t >= 0) view.go(t); }}, shape,
      s("text", {}, ends ? MARK[node.end] : node.value === null ? "" : number(node.value, 1)),
      s("title", {}, ends ? node.end : `${texts[node.text]}\n${unit(node.visits, "visit")}, ${node.branches} different successors`));
    drawn.set(node.id, mark); circles.append(mark);
  }
  view.onstep.push(t => { drawn.forEach(mark => mark.classList.remove("now")); drawn.get(episode.state[t])?.classList.add("now"); });
  const arrow = s("defs", {}, s("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, markerUnits: "userSpaceOnUse", orient: "auto"}, s("path", {d: "M0,0L8,4L0,8z", fill: "var(--quiet)"})));
  const svg = s("svg", {role: "img", "aria-label": `Rollout graph of ${unit(group.episodes.length, "episode")}: ${unit(nodes.filter(n => n.id >= 0).length, "state")}`}, arrow, arrows, labels, circles);
  return zoomable(svg, corners);
}

function curve(a, b, loop) {
  if (loop) return [`M${a[0] - 6},${a[1] - 13}C${a[0] - 18},${a[1] - 38} ${a[0] + 18},${a[1] - 38} ${a[0] + 6},${a[1] - 13}`, [a[0], a[1] - 34]];
  const [dx, dy] = [b[0] - a[0], b[1] - a[1]], length = Math.hypot(dx, dy), bend = Math.min(length * .16, 34);
  const m = [(a[0] + b[0]) / 2 - dy / length * bend, (a[1] + b[1]) / 2 + dx / length * bend];
  const toward = (p, q, by) => { const l = Math.hypot(q[0] - p[0], q[1] - p[1]) || 1; return [p[0] + (q[0] - p[0]) / l * by, p[1] + (q[1] - p[1]) / l * by]; };
  const [from, to] = [toward(a, m, 15), toward(b, m, 16)];
  return [`M${from}Q${m} ${to}`, [(a[0] + b[0]) / 4 + m[0] / 2, (a[1] + b[1]) / 4 + m[1] / 2]];
}

function zoomable(svg, points) {
  const xs = points.map(p => p[0]), ys = points.map(p => p[1]), pad = 46;
  const whole = [Math.min(...xs), Math.min(...ys) - pad, Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys) + 2 * pad];
  const narrow = innerWidth < 600, ratio = narrow ? 1.4 : Math.max(whole[2] / whole[3], 1.2);
  let box = [whole[0], whole[1], narrow ? Math.min(NARROW, whole[2]) : whole[2], whole[3]], from = null;
  const apply = () => svg.setAttribute("viewBox", box.join(" "));
  const zoom = (by, at = [.5, .5]) => { box = [box[0] + box[2] * at[0] * (1 - by), box[1] + box[3] * at[1] * (1 - by), box[2] * by, box[3] * by]; apply(); };
  const move = (x, y) => { box[0] += x; box[1] += y; apply(); };
  svg.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && !svg.classList.contains("active")) return;
    event.preventDefault();
    const r = svg.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, [(event.clientX - r.left) / r.width, (event.clientY - r.top) / r.height]);
  }, {passive: false});
  svg.addEventListener("pointerdown", event => { from = [event.clientX, event.clientY]; svg.classList.add("active"); });
  svg.addEventListener("pointermove", event => {
    if (!from) return;
    const scale = Math.max(box[2] / svg.clientWidth, box[3] / svg.clientHeight);
    move((from[0] - event.clientX) * scale, (from[1] - event.clientY) * scale);
    from = [event.clientX, event.clientY];
  });
  for (const name of ["pointerup", "pointerleave", "pointercancel"]) svg.addEventListener(name, () => { from = null; });
  svg.addEventListener("mouseleave", () => svg.classList.remove("active"));
  apply();
  const button = (text, label, act) => h("button", {"aria-label": label, title: label, onclick: act}, text);
  const tools = h("div", {class: "tools"}, button("+", "zoom in", () => zoom(1 / 1.4)), button("−", "zoom out", () => zoom(1.4)), button("fit", "show all", () => { box = [...whole]; apply(); }));
  return h("div", {class: "graph", style: `aspect-ratio: ${ratio.toFixed(2)}`, tabindex: "0", role: "group", "aria-label": "Rollout graph; arrow keys move, + and − zoom", onkeydown: event => {
    const step = box[2] / 8, act = {ArrowLeft: () => move(-step, 0), ArrowRight: () => move(step, 0), ArrowUp: () => move(0, -step), ArrowDown: () => move(0, step), "+": () => zoom(1 / 1.3), "-": () => zoom(1.3)}[event.key];
    if (act && event.target.classList.contains("graph")) { event.preventDefault(); act(); }
  }}, svg, tools);
}
