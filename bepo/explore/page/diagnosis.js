// Is the run healthy? How its metrics moved, the terms of its advantage, its values, and what its stages cost.

const short = value => value === null ? "–" : String(Number(value.toPrecision(3))).replace("-", "−");

function showAlarms(index) {
  if (!index.alarms.length) return null;
  const line = ({run, text}) => h("p", {}, h("strong", {}, "Alarm"), index.runs.length > 1 ? ` in run ${run}` : "", `: ${text}.`);
  const lines = index.alarms.map(line), most = 6;
  return h("div", {class: "alarms", role: "alert"}, lines.slice(0, most),
    lines.length > most ? h("details", {}, h("summary", {}, `${lines.length - most} more`), lines.slice(most)) : null);
}

function histogram({name, counts, low, high}) {
  const width = 220, height = 70, bar = width / counts.length, most = Math.max(...counts), x = value => (value - low) / (high - low) * width;
  const bars = counts.map((n, i) => s("rect", {x: i * bar, y: height - height * n / most, width: Math.max(bar - 1, 1), height: height * n / most, fill: "var(--accent)"}));
  const zero = low < 0 && high > 0 ? s("line", {x1: x(0), x2: x(0), y1: 0, y2: height, stroke: "var(--text)", "stroke-dasharray": "2 2"}) : "";
  return h("figure", {class: "histogram"}, h("figcaption", {}, name),
    s("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `histogram of ${name} from ${short(low)} to ${short(high)}`}, bars, zero),
    h("div", {class: "ends quiet small"}, h("span", {}, short(low)), h("span", {}, short(high))));
}

function showDiagnosis(index) {
  const found = index.diagnosis, section = byId("diagnosis");
  if (!found) return;
  const numbers = ({heads, rows}) => table(heads, rows.map(([name, ...values]) => [name, ...values.map(short)]), heads.map((_, i) => i).slice(1));
  const part = (title, content, note) => h("div", {}, h("h3", {}, title), content, note ? h("p", {class: "quiet small"}, note) : null);
  if (found.late) return section.append(part("Metrics at the end, by method", h("div", {class: "late"}, numbers(found.late)), "Means over the last fifth of the updates and over the runs of a method."));
  section.append(part("How the metrics moved", numbers(found.signals), "Means over the first, the middle and the last fifth of the updates. Success that falls while the return rises is reward hacking."));
  if (found.seconds.rows.length) section.append(part("Cost by stage", numbers(found.seconds)));
  if (!found.histograms.length) return section.append(h("p", {class: "quiet"}, found.why));
  section.append(part(`Advantages of update ${found.update}, by term`, h("div", {class: "histograms"}, found.histograms.map(histogram)), `Transitions by their value; ${percent(found.zero)} of them have no advantage. Dashed: zero.`));
  if (found.calibration) section.append(part(`Values against realised returns, update ${found.update}`, numbers(found.calibration), "Transitions in five bins of the estimator's value. A calibrated value equals the mean realised return of its bin."));
}
