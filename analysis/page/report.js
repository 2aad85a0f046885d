"use strict";
// Draws the page's interactive plots from the data beside it. Nothing is fetched; without this script the page still
// has its words and tables.

const DATA = JSON.parse(document.getElementById("data").textContent);
const DASHES = ["", "7 3", "2 2.5", "8 3 2 3", "12 4", "4 2 1.5 2 1.5 2"];
const SVG = "http://www.w3.org/2000/svg";

const colour = (i) => `var(--c${i % 7})`;
const dash = (i) => DASHES[i % DASHES.length];
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (parent) parent.append(made);
  return made;
}

function html(name, attributes, parent, text) {
  const made = document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

// Number of entries of the ascending array that are at or below the value.
function countAtOrBelow(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

function ticks(low, high, log, wanted) {
  if (log) {
    const steps = high / low > 300 ? [1] : high / low > 8 ? [1, 2, 5] : null;
    if (steps) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
        for (const step of steps) found.push(step * 10 ** power);
      return found.filter((t) => t >= low * (1 - 1e-9) && t <= high * (1 + 1e-9));
    }
  }
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= raw);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

const plain = (value) => String(Number(value.toPrecision(6)));

// A plot with axes, zoom (drag, wheel, keys; double-click resets) and a cursor that others may share.
class Plot {
  constructor(host, options) {
    this.host = host;
    Object.assign(this, { height: 320, left: 52, onCursor: () => {}, onZoom: () => {} }, options);
    host.classList.add("plot");
    host.tabIndex = 0;
    this.svg = element("svg", { role: "img", "aria-label": this.title }, null);
    host.replaceChildren(this.svg);
    this.full = this.view = [...this.x.domain];
    this.listen();
    new ResizeObserver(() => this.draw()).observe(host);
  }

  get width() { return this.host.clientWidth || 320; }
  get inner() { return { left: this.left, right: this.width - 14, top: this.y.label ? 26 : 12, bottom: this.height - (this.x.label ? 42 : 22) }; }

  show(options) {
    const kept = this.x && options.x && this.x.log === options.x.log && this.keepView ? this.view : null;
    Object.assign(this, options);
    this.full = [...this.x.domain];
    this.view = kept || [...this.full];
    this.draw();
  }

  scale(axis, [low, high], from, to) {
    const f = axis.log ? Math.log : Number;
    return (value) => from + ((f(Math.max(value, axis.log ? low / 1e6 : -Infinity)) - f(low)) / (f(high) - f(low))) * (to - from);
  }

  toX(pixel) {
    const { left, right } = this.inner, [low, high] = this.view, share = (pixel - left) / (right - left);
    return this.x.log ? low * (high / low) ** share : low + (high - low) * share;
  }

  draw() {
    const { left, right, top, bottom } = this.inner;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("height", this.height);
    this.svg.replaceChildren();
    const px = this.scale(this.x, this.view, left, right), py = this.scale(this.y, this.y.domain, bottom, top);
    this.axes(px, py);
    const id = `clip-${this.host.id}`;
    const clip = element("clipPath", { id }, this.svg);
    element("rect", { x: left, y: top - 3, width: Math.max(right - left, 1), height: bottom - top + 6 }, clip);
    const marks = element("g", { "clip-path": `url(#${id})` }, this.svg);
    this.marks(marks, px, py);
    this.cursor = element("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" }, this.svg);
    this.box = element("rect", { class: "zoom", y: top, height: bottom - top, width: 0 }, this.svg);
  }

  axes(px, py) {
    const { left, right, top, bottom } = this.inner;
    let last = -Infinity;
    for (const t of ticks(...this.view, this.x.log, clamp(this.width / 90, 3, 9))) {
      const x = px(t), text = plain(t);
      if (x < left - 1 || x > right + 1) continue;
      element("line", { class: "gridline", x1: x, x2: x, y1: top, y2: bottom }, this.svg);
      if (x - last < text.length * 7 + 8) continue;
      element("text", { x, y: bottom + 15, "text-anchor": "middle" }, this.svg).textContent = text;
      last = x;
    }
    for (const t of this.y.ticks || ticks(...this.y.domain, this.y.log, this.height > 150 ? 5 : 2)) {
      const y = py(t);
      element("line", { class: "gridline", x1: left, x2: right, y1: y, y2: y }, this.svg);
      element("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, this.svg).textContent = (this.y.format || plain)(t);
    }
    element("path", { class: "frame", fill: "none", d: `M${left} ${top}V${bottom}H${right}` }, this.svg);
    if (this.x.label) element("text", { class: "label", x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, this.svg).textContent = this.x.label;
    if (this.y.label) element("text", { class: "label", x: 8, y: 15 }, this.svg).textContent = this.y.label;
  }

  zoom(low, high) {
    const [first, last] = this.full;
    const view = [clamp(low, first, last), clamp(high, first, last)];
    const enough = this.x.log ? view[1] / view[0] > 1.0005 : view[1] - view[0] > (last - first) * 1e-5;
    if (!enough) return;
    this.view = view;
    this.draw();
    this.onZoom(view);
  }

  zoomBy(factor, at = this.middle) {
    const [low, high] = this.view;
    if (this.x.log) this.zoom(at * (low / at) ** factor, at * (high / at) ** factor);
    else this.zoom(at + (low - at) * factor, at + (high - at) * factor);
  }

  get middle() { return this.x.log ? Math.sqrt(this.view[0] * this.view[1]) : (this.view[0] + this.view[1]) / 2; }

  point(at) {
    if (!this.cursor) return;
    const { left, right } = this.inner;
    const x = at === null ? NaN : this.scale(this.x, this.view, left, right)(at);
    const inside = x >= left && x <= right;
    this.cursor.setAttribute("visibility", inside ? "visible" : "hidden");
    if (inside) { this.cursor.setAttribute("x1", x); this.cursor.setAttribute("x2", x); }
  }

  listen() {
    const pixel = (event) => event.clientX - this.host.getBoundingClientRect().left;
    let start = null;
    this.host.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType === "mouse") start = pixel(event); });
    this.host.addEventListener("pointermove", (event) => {
      const now = pixel(event);
      if (start !== null) {
        this.box.setAttribute("x", Math.min(start, now));
        this.box.setAttribute("width", Math.abs(now - start));
      }
      this.onCursor(clamp(this.toX(now), ...this.view));
    });
    window.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const [a, b] = [start, pixel(event)].sort((p, q) => p - q);
      start = null;
      if (b - a > 6) this.zoom(this.toX(a), this.toX(b)); else this.box.setAttribute("width", 0);
    });
    this.host.addEventListener("pointerleave", () => this.onCursor(null));
    this.host.addEventListener("dblclick", () => this.zoom(...this.full));
    this.host.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && !event.altKey && document.activeElement !== this.host) return;
      event.preventDefault();
      this.zoomBy(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, this.toX(pixel(event)));
    }, { passive: false });
    this.host.addEventListener("keydown", (event) => {
      const [low, high] = this.view;
      const shift = (by) => this.x.log ? this.zoom(low * (high / low) ** by, high * (high / low) ** by) : this.zoom(low + (high - low) * by, high + (high - low) * by);
      const act = { "+": () => this.zoomBy(0.7), "=": () => this.zoomBy(0.7), "-": () => this.zoomBy(1.4),
        0: () => this.zoom(...this.full), ArrowLeft: () => shift(-0.1), ArrowRight: () => shift(0.1) }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }
}

const percent = (share) => share > 0 && share < 0.001 ? `${Number((100 * share).toPrecision(2))} %` : `${Number((100 * share).toFixed(2))} %`;

// Distributions: a line for each cell; the body on linear axes, or the tail on logarithmic ones.
function distributions(root) {
  const state = { group: 0, metric: "T", tail: false, off: new Set() };
  const host = root.querySelector("#cdf"), legend = root.querySelector(".legend"), readout = root.querySelector(".readout");
  const lines = () => DATA.groups[state.group].lines.filter((line) => line.metrics[state.metric]);
  const shown = () => lines().filter((line) => !state.off.has(line.label));

  function axes() {
    const own = (shown().length ? shown() : lines()).map((line) => line.metrics[state.metric]);
    const first = Math.min(...own.map((d) => d.x[0])) / 1000, last = Math.max(...own.map((d) => d.x[d.x.length - 1])) / 1000;
    const most = Math.max(...own.map((d) => d.n));
    const x = { label: `${state.metric} in ms${state.tail ? ", logarithmic" : ""}`, log: state.tail };
    const body = Math.max(...own.map((d) => d.x[countAtOrBelow(d.c, d.n * 0.98)] || d.x[d.x.length - 1])) / 1000;
    const margin = (body - first) * 0.03 || first * 0.01;
    x.domain = state.tail ? [first * 0.98, last * 1.02] : [Math.max(first - margin, 0), last + margin];
    x.open = state.tail ? x.domain : [x.domain[0], body + margin];
    const y = state.tail
      ? { log: true, domain: [0.7 / most, 1.3], format: percent, label: "answers at or beyond", ticks: ticks(1 / most, 1, true, 5).filter((t) => Math.abs(Math.log10(t) % 1) < 1e-6) }
      : { domain: [0, 1], format: percent, label: "answers at or below", ticks: [0, 0.2, 0.4, 0.6, 0.8, 1] };
    return { x, y };
  }

  // Body: the share at or below jumps up at each value. Tail: the share at or beyond holds from the value before.
  function path(d, px, py) {
    const parts = [];
    for (let i = 0; i < d.x.length; i++) {
      const x = px(d.x[i] / 1000).toFixed(2), y = py(state.tail ? 1 - d.b[i] / d.n : d.c[i] / d.n).toFixed(2);
      if (i === 0) parts.push(state.tail ? `M${x} ${y}` : `M${x} ${py(0).toFixed(2)}V${y}`);
      else parts.push(state.tail ? `V${y}H${x}` : `H${x}V${y}`);
    }
    return parts.join("");
  }

  function band(d, px, py) {
    const low = d.band.low, high = d.band.high, x = d.band.x, there = [], back = [];
    for (let i = 0; i < x.length; i++) {
      const at = px(x[i] / 1000).toFixed(1);
      there.push(`${at} ${py(state.tail ? 1 - low[i] : high[i]).toFixed(1)}`);
      back.unshift(`${at} ${py(state.tail ? 1 - high[i] : low[i]).toFixed(1)}`);
    }
    return `M${[...there, ...back].join("L")}Z`;
  }

  function marks(group, px, py) {
    for (const line of shown()) {
      const d = line.metrics[state.metric], i = lines().indexOf(line);
      if (d.band) element("path", { d: band(d, px, py), fill: colour(i), opacity: 0.15 }, group);
    }
    for (const line of shown()) {
      const d = line.metrics[state.metric], i = lines().indexOf(line);
      element("path", { class: "line", "data-label": line.label, d: path(d, px, py), fill: "none", stroke: colour(i), "stroke-width": 2, "stroke-dasharray": dash(i) }, group);
    }
  }

  function read(at) {
    plot.point(at);
    readout.replaceChildren();
    if (at === null) { readout.textContent = root.dataset.hint; return; }
    html("span", {}, readout, `${state.metric} ${at.toFixed(3)} ms`);
    for (const line of shown()) {
      const d = line.metrics[state.metric], index = countAtOrBelow(d.x, at * 1000), below = index ? d.c[index - 1] : 0;
      const span = html("span", {}, readout, `${line.label}: `);
      html("b", {}, span, state.tail ? percent(1 - below / d.n) : percent(below / d.n));
      span.append(state.tail ? " beyond" : " at or below");
    }
  }

  function drawLegend() {
    legend.replaceChildren();
    lines().forEach((line, i) => {
      const label = html("label", {}, legend), box = html("input", { type: "checkbox" }, label), d = line.metrics[state.metric];
      box.checked = !state.off.has(line.label);
      box.addEventListener("change", () => { state.off[box.checked ? "delete" : "add"](line.label); update(); });
      const key = element("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" }, label);
      element("line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour(i), "stroke-width": 2.5, "stroke-dasharray": dash(i) }, key);
      label.append(`${line.label} (n = ${d.n.toLocaleString("en")}${d.lost ? `, ${d.lost.toLocaleString("en")} lost` : ""})`);
    });
  }

  const first = axes();
  const plot = new Plot(host, { ...first, title: "Cumulative distribution of latency", marks, onCursor: read });

  function update() {
    const now = axes();
    plot.show({ ...now, marks });
    if (!state.tail) plot.zoom(...now.x.open);
    for (const button of root.querySelectorAll("[data-metric]")) button.setAttribute("aria-pressed", button.dataset.metric === state.metric);
    for (const button of root.querySelectorAll("[data-tail]")) button.setAttribute("aria-pressed", (button.dataset.tail === "1") === state.tail);
    drawLegend();
    read(null);
  }

  for (const button of root.querySelectorAll("[data-metric]")) button.addEventListener("click", () => { state.metric = button.dataset.metric; update(); });
  for (const button of root.querySelectorAll("[data-tail]")) button.addEventListener("click", () => { state.tail = button.dataset.tail === "1"; update(); });
  root.querySelector("[data-reset]").addEventListener("click", update);
  for (const button of root.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => plot.zoomBy(Number(button.dataset.zoom)));
  const group = root.querySelector("[data-group]");
  if (group) group.addEventListener("change", () => { state.group = Number(group.value); state.off.clear(); update(); });
  update();
}

// Time series of one repetition: latency above, what the host and the services suffered beneath, on one time axis.
function timelines(root) {
  const cell = root.querySelector("[data-cell]"), repetition = root.querySelector("[data-repetition]");
  const readout = root.querySelector(".readout"), place = root.querySelector(".panels");
  let plots = [];

  function share(view, from) {
    for (const plot of plots) if (plot !== from) { plot.view = [...view]; plot.draw(); }
  }

  function panel(options) {
    const host = html("div", { id: `panel-${plots.length}` }, place);
    const plot = new Plot(host, { left: 58, ...options, onCursor: point });
    plot.onZoom = (view) => share(view, plot);
    plots.push(plot);
  }

  function latency(own, end, last) {
    const top = Math.max(...own.t.filter((t) => t !== null), 1) / 1000 * 1.08;
    const marks = (group, px, py) => {
      const deadline = own.deadline_ms;
      if (deadline <= top) element("line", { class: "deadline", x1: px(0), x2: px(end), y1: py(deadline), y2: py(deadline) }, group);
      const dots = own.t.map((t, i) => t === null ? "" : `M${px(own.at[i] / 1000).toFixed(1)} ${py(t / 1000).toFixed(1)}h0`).join("");
      element("path", { class: "dots", d: dots, stroke: "var(--c0)", "stroke-width": 4, "stroke-linecap": "round", fill: "none", opacity: 0.75 }, group);
      for (const at of own.lost) element("line", { class: "lost", x1: px(at / 1000), x2: px(at / 1000), y1: py(0), y2: py(top * 0.06) }, group);
    };
    const label = `T in ms${own.thinned ? ", slowest of each slice" : ""}`;
    panel({ height: 210, title: "T over time", x: { domain: [0, end], label: last ? "seconds" : "" }, y: { domain: [0, top], label }, marks });
  }

  function cause(own, quantity, end, last) {
    const series = own.causes[quantity.name];
    const top = Math.max(...series.flatMap((s) => s.v.filter((v) => v !== null)), quantity.least) * 1.15;
    const marks = (group, px, py) => series.forEach((s) => {
      const i = DATA.services.indexOf(s.service);
      let d = "", on = false;
      s.v.forEach((v, k) => { if (v === null) { on = false; return; } d += `${on ? "L" : "M"}${px(s.at[k] / 1000).toFixed(1)} ${py(v).toFixed(1)}`; on = true; });
      element("path", { d, fill: "none", stroke: colour(i), "stroke-width": 1.6, "stroke-dasharray": dash(i) }, group);
    });
    panel({ height: last ? 122 : 102, title: quantity.label, x: { domain: [0, end], label: last ? "seconds" : "" }, y: { domain: [0, top], label: quantity.label }, marks });
  }

  function point(at) {
    for (const plot of plots) plot.point(at);
    readout.replaceChildren();
    if (at === null) { readout.textContent = root.dataset.hint; return; }
    const own = current();
    html("span", {}, readout, `${at.toFixed(2)} s`);
    const i = clamp(countAtOrBelow(own.at, at * 1000) - 1, 0, own.at.length - 1);
    if (own.t[i] !== null && own.t[i] !== undefined) html("b", {}, html("span", {}, readout, "T "), `${(own.t[i] / 1000).toFixed(3)} ms`);
    for (const quantity of quantities(own)) for (const s of own.causes[quantity.name]) {
      const k = clamp(countAtOrBelow(s.at, at * 1000) - 1, 0, s.at.length - 1);
      if (s.v[k]) html("b", {}, html("span", {}, readout, `${quantity.short} ${s.service} `), plain(s.v[k]));
    }
  }

  const current = () => DATA.timelines[Number(cell.value)].repetitions[Number(repetition.value)];
  const quantities = (own) => DATA.quantities.filter((quantity) => own.causes[quantity.name]);

  function update() {
    const own = current(), causes = quantities(own);
    place.replaceChildren();
    plots = [];
    const end = Math.max(own.at[own.at.length - 1], ...own.lost, 1) / 1000;
    latency(own, end, !causes.length);
    causes.forEach((quantity, i) => cause(own, quantity, end, i === causes.length - 1));
    point(null);
  }

  function choose() {
    repetition.replaceChildren();
    DATA.timelines[Number(cell.value)].repetitions.forEach((own, i) => html("option", { value: i }, repetition, own.label));
    update();
  }

  cell.addEventListener("change", choose);
  repetition.addEventListener("change", update);
  root.querySelector("[data-reset]").addEventListener("click", update);
  for (const button of root.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => plots[0].zoomBy(Number(button.dataset.zoom)));
  const legend = root.querySelector(".legend");
  DATA.services.forEach((service, i) => {
    const label = html("span", {}, legend), key = element("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" }, label);
    element("line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour(i), "stroke-width": 2.5, "stroke-dasharray": dash(i) }, key);
    label.append(` ${service}`);
  });
  choose();
}

if (DATA.groups.length) distributions(document.getElementById("distributions"));
if (DATA.timelines.length) timelines(document.getElementById("timelines"));
document.documentElement.dataset.ready = "1";
