// The runs, their curves, success by task type, and settings.

const redraws = [];  // of the parts that the search changes

function showRuns(index) {
  const section = byId("runs"), place = h("div"), several = isStudy(index);
  if (several) byId("episodes").before(byId("curves"), byId("types"));
  const draw = () => {
    if (!several) return place.replaceChildren(runRows(index, index.runs));
    const runs = index.runs.filter((run, i) => wanted(run.name, run.id, methodOf(index, i).name)), all = place.querySelector("details")?.open;
    place.replaceChildren(methodsTable(index), h("details", {style: "margin-top:.5rem", open: all || null}, h("summary", {}, unit(runs.length, "single run")), runRows(index, runs)));
    section.querySelector("[role=status]").textContent = `${chosenMethods(index).length} of ${unit(index.methods.length, "method")}, ${runs.length} of ${unit(index.runs.length, "run")}`;
  };
  if (several) section.append(methodBar(index, () => redraws.forEach(redraw => redraw())));
  section.append(place, showAlarms(index) ?? "");
  redraws.push(draw); draw();
  const notes = index.notes.map(note => h("p", {class: "quiet small"}, note));
  section.append(notes.length > 3 ? h("details", {}, h("summary", {}, unit(notes.length, "note")), notes) : h("div", {}, notes));
}

function runRows(index, runs) {
  const rows = runs.map(run => [
    h("span", {}, dot(run), run.label), run.env, run.tier, String(run.seed), run.status,
    run.success === null ? "–" : h("span", {}, h("span", {class: "bar", "aria-hidden": "true"}, h("i", {style: `width:${100 * run.success}%`})), percent(run.success)),
    h("code", {}, run.id),
  ]);
  return h("div", {style: "margin-top:1.2rem"}, table(["Run", "Environment", "Tier", "Seed", "Updates", "Held-out success", "Id"], rows));
}

function smoothed(points, width) {
  if (width < 2) return points;
  return points.map(([x], i) => {
    const near = points.slice(Math.max(0, i - width + 1), i + 1);
    return [x, near.reduce((sum, p) => sum + p[1], 0) / near.length];
  });
}

function showCurves(index) {
  const section = byId("curves"), plot = h("div"), names = Object.keys(index.curves);
  if (!names.length) return section.append(h("p", {class: "quiet"}, "No update is recorded yet."));
  let metric = names.includes("train/success") ? "train/success" : names[0], width = 9;
  const lines = () => isStudy(index) && !shown.runs ? methodLines(index, metric, width) : runLines(index, metric, width);
  const draw = () => plot.replaceChildren(curvePlot(lines(), metric, plot.clientWidth || 600));
  section.append(h("div", {class: "row"}, isStudy(index) ? choice("Lines", [["", linesTitle(index)], ["runs", "single runs"]], "", value => { shown.runs = Boolean(value); draw(); }) : null,
    choice("Metric", names.map(name => [name, name]), metric, value => { metric = value; draw(); }),
    choice("Mean over", [[1, "one update"], [5, "5 updates"], [9, "9 updates"], [25, "25 updates"]], width, value => { width = Number(value); draw(); })), plot);
  draw();
  redraws.push(draw);
  addEventListener("resize", draw);
}

function ticks(low, high, n) {
  const raw = (high - low) / n || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= raw), found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step / 1e6; x += step) found.push(Number(x.toPrecision(12)));
  return found;
}

function curvePlot(lines, metric, width) {
  if (!lines.length) return h("p", {class: "quiet"}, "Nothing that is shown has logged this metric.");
  const all = lines.flatMap(line => line.band ? line.band.flatMap(([x, low, high]) => [[x, low], [x, high]]) : line.points), height = 260, left = 52, right = 12, top = 12, bottom = 26;
  let [x0, x1] = [Math.min(...all.map(p => p[0])), Math.max(...all.map(p => p[0]))];
  let [y0, y1] = [Math.min(...all.map(p => p[1])), Math.max(...all.map(p => p[1]))];
  if (x0 === x1) x1 = x0 + 1;
  if (y0 === y1) [y0, y1] = [y0 - .5, y1 + .5];
  const x = v => left + (v - x0) / (x1 - x0) * (width - left - right), y = v => height - bottom - (v - y0) / (y1 - y0) * (height - top - bottom);
  const grid = ticks(y0, y1, 4).map(v => [s("line", {x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: "var(--line)"}),
    s("text", {x: left - 6, y: y(v) + 4, "text-anchor": "end", "font-size": 11}, String(v).replace("-", "−"))]);
  const below = ticks(x0, x1, Math.min(8, width / 70)).filter(Number.isInteger).map(v => s("text", {x: x(v), y: height - 8, "text-anchor": "middle", "font-size": 11}, String(v)));
  const dashes = ["", "6 3", "2 3", "8 3 2 3"];
  const paths = lines.map(({run, points}) => s("path", {d: "M" + points.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join("L"), fill: "none", stroke: run.colour, "stroke-width": 1.8, "stroke-dasharray": dashes[run.twin % 4]}));
  const several = lines.length > mostBands;
  const bands = lines.map(({run, band}) => band ? s("path", {d: "M" + [...band.map(p => [p[0], p[2]]), ...band.map(p => [p[0], p[1]]).reverse()].map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join("L") + "Z", fill: run.colour, "fill-opacity": .13, visibility: several ? "hidden" : "visible"}) : "");
  const point = chosen => lines.forEach(({band}, i) => {
    paths[i].setAttribute("opacity", chosen === null || chosen === i ? 1 : .2);
    if (band) bands[i].setAttribute("visibility", (chosen === null ? several : chosen !== i) ? "hidden" : "visible");
  });
  const cursor = s("line", {y1: top, y2: height - bottom, stroke: "var(--quiet)", visibility: "hidden"});
  const values = lines.map(() => h("span", {class: "num"})), update = h("span", {class: "quiet"}, "at the end");
  const show = at => lines.forEach(({points}, i) => {
    const near = points.reduce((best, p) => Math.abs(p[0] - at) < Math.abs(best[0] - at) ? p : best);
    values[i].textContent = String(Number(near[1].toPrecision(3))).replace("-", "−");
  });
  show(x1);
  const svg = s("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${metric} over updates`,
    onpointermove: event => {
      const at = Math.round(x0 + (event.offsetX - left) / (width - left - right) * (x1 - x0));
      if (at < x0 || at > x1) return;
      cursor.setAttribute("visibility", "visible"); cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at));
      update.textContent = `update ${at}`; show(at);
    }}, grid.flat(), below, bands, paths, cursor);
  const legend = lines.map(({run}, i) => h("span", {class: "small", tabindex: 0, onpointerenter: () => point(i), onpointerleave: () => point(null), onfocus: () => point(i), onblur: () => point(null)},
    dot(run), `${run.name} `, values[i]));
  return h("div", {}, svg, h("div", {class: "row"}, update, legend));
}

function showTypes(index) {
  const section = byId("types");
  if (!index.types.length) return section.append(h("p", {class: "quiet"}, "No evaluation episode is recorded yet."));
  const mark = (before, after) => s("svg", {width: 220, height: 16, viewBox: "0 0 220 16", "aria-hidden": "true"},
    s("line", {x1: 8, x2: 208, y1: 8, y2: 8, stroke: "var(--line)"}),
    s("line", {x1: 8 + 200 * (before ?? after), x2: 8 + 200 * after, y1: 8, y2: 8, stroke: "var(--accent)", "stroke-width": 2}),
    before === null ? "" : s("circle", {cx: 8 + 200 * before, cy: 8, r: 4, fill: "var(--back)", stroke: "var(--accent)"}),
    s("circle", {cx: 8 + 200 * after, cy: 8, r: 4.5, fill: "var(--accent)"}));
  const place = h("div"), owned = () => isStudy(index) ? typesOfMethods(index) : index.types.map(row => ({...row, owner: index.runs[row.run]}));
  const rows = () => owned().map(({owner, kind, episodes, before, after, update}) => [h("span", {}, dot(owner), owner.name),
    kind || "all tasks", percent(before), percent(after), mark(before, after), String(update), String(episodes)]);
  const draw = () => place.replaceChildren(table([isStudy(index) ? "Method" : "Run", "Task type", "Before training", "After", "0 to 100 %", "At update", "Episodes"], rows(), [2, 3, 5, 6]));
  redraws.push(draw); draw();
  section.append(place,
    h("p", {class: "quiet small"}, "Test tasks, all evaluation passes; hollow: the policy before training."));
}

function showSettings(index) {
  const section = byId("settings"), {fields, values} = index.differences;
  const every = run => h("details", {style: "margin-top:.5rem"}, h("summary", {}, `Every setting of ${run.name} (${run.id})`),
    table(["Setting", "Value"], run.settings.map(([name, value]) => [h("code", {}, name), value])));
  if (isStudy(index)) {
    const differ = [...new Set(index.methods.flatMap(method => Object.keys(method.settings)))];
    section.append(h("h3", {}, differ.length ? "What differs between methods" : "Methods differ only in their estimator"));
    if (differ.length) section.append(table(["Method", ...differ.map(field => h("code", {}, field))], index.methods.map(method => [h("span", {}, dot(method), method.name), ...differ.map(field => method.settings[field] ?? "–")])));
    section.append(h("details", {style: "margin-top:.5rem"}, h("summary", {}, `Every setting of ${unit(index.runs.length, "run")}`), index.runs.map(every)));
    return;
  }
  if (index.runs.length > 1) {
    section.append(h("h3", {}, fields.length ? "What differs" : "All settings are equal"));
    if (fields.length) section.append(table(["Setting", ...index.runs.map(run => run.name)], fields.map((field, i) => [h("code", {}, field), ...values[i].map(value => value ?? "–")])));
  }
  section.append(...index.runs.map(every));
}
