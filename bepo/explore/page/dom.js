// Elements, numbers, and the parts of the page that are unpacked when they are looked at.

function h(tag, options = {}, ...children) {
  const element = tag === "svg" || options.svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "svg" || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}

const s = (tag, options, ...children) => h(tag, {svg: true, ...options}, ...children);
const byId = id => document.getElementById(id);

function number(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");
}

const percent = value => value === null || value === undefined ? "–" : number(100 * value, 1) + " %";
const unit = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

async function unpack(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const unpacked = new Map();
function chunk(number) {
  if (!unpacked.has(number)) unpacked.set(number, unpack("chunk" + number));
  return unpacked.get(number);
}

function choice(label, options, value, change) {
  const select = h("select", {onchange: event => change(event.target.value)}, options.map(([key, text]) =>
    h("option", {value: key, selected: String(key) === String(value)}, text)));
  return h("label", {}, label, select);
}

function table(heads, rows, numeric = []) {
  return h("div", {class: "scroll"}, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", {class: numeric.includes(i) ? "num" : null}, head)))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map((cell, i) => h("td", {class: numeric.includes(i) ? "num" : null}, cell)))))));
}

const dot = run => h("span", {class: "dot", style: `background:${run.colour}`, "aria-hidden": "true"});
