"use strict";
// Draws the page's interactive plots with uPlot from the data beside it. Nothing is fetched; without this script the
// page still has its words, its tables and its figures of the first screen.

const DATA = JSON.parse(document.getElementById("data").textContent);
const DASHES = [[], [7, 3], [2, 2.5], [8, 3, 2, 3], [12, 4], [4, 2, 1.5, 2, 1.5, 2]];
const TOGETHER = 6; // more lines than this are not told apart: small multiples, each beside the first
const NINES = [2, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (i) => css(`--c${i % 7}`);
const dash = (i) => DASHES[i % DASHES.length];
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const plain = (value) => String(Number(value.toPrecision(6)));
const percent = (share) => `${Number((100 * share).toFixed(share > 0.999 ? 4 : 2))} %`;

function html(name, attributes, parent, text) {
  const made = document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function key(i, parent) {
  const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg"), line = document.createElementNS(space, "line");
  for (const [name, value] of Object.entries({ viewBox: "0 0 34 10", "aria-hidden": "true" })) svg.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x1: 0, x2: 34, y1: 5, y2: 5, stroke: `var(--c${i % 7})`, "stroke-width": 2.5, "stroke-dasharray": dash(i).join(" ") })) line.setAttribute(name, value);
  svg.append(line);
  parent.append(svg);
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

// A uPlot in its own box that follows the box's width, is zoomed by keys too, and knows how to be drawn anew.
class Panel {
  constructor(host, options, data, title) {
    Object.assign(this, { host, options, data });
    host.classList.add("plot");
    Object.assign(host, { tabIndex: 0 });
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", `${title}; the same as a table below`);
    this.draw();
    this.sizes = new ResizeObserver(() => this.plot.setSize({ width: this.width, height: this.options.height }));
    this.sizes.observe(host);
    host.addEventListener("keydown", (event) => this.press(event));
  }

  get width() { return Math.max(this.host.clientWidth - 2, 200); }

  draw() {
    if (this.plot) this.plot.destroy();
    const axis = (own) => ({ stroke: css("--quiet"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "11.5px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20, ...own });
    const { axes, series, ...options } = this.options;
    this.plot = new uPlot({ legend: { show: false }, ...options, width: this.width, axes: axes.map(axis), series: series.map((own) => typeof own === "function" ? own() : own) }, this.data, this.host);
  }

  press(event) {
    const scale = this.plot.scales.x, log = scale.distr === 3, f = log ? Math.log : Number, back = log ? Math.exp : Number;
    const [low, high] = [f(scale.min), f(scale.max)], span = high - low;
    const zoom = (a, b) => this.plot.setScale("x", { min: back(a), max: back(b) });
    const act = {
      "+": () => zoom(low + span * 0.15, high - span * 0.15), "=": () => zoom(low + span * 0.15, high - span * 0.15),
      "-": () => zoom(low - span * 0.2, high + span * 0.2), 0: () => this.plot.setData(this.data),
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  }

  step(by) {
    const { plot } = this, width = plot.over.clientWidth, at = plot.cursor.left >= 0 ? plot.cursor.left : width / 2;
    plot.setCursor({ left: clamp(at + by * width / 50, 0, width), top: 1 });
  }

  remove() { this.sizes.disconnect(); this.plot.destroy(); this.host.remove(); }
}

let panels = [];

// ---- Distributions: latency against the share of cycles that were answered within it ------------------------------

// The k-th fastest answer is line.x at the first count beyond k; a lost cycle ranks behind every answer.
function atNines(line, nines) {
  const rank = Math.ceil((1 - 1 / nines) * (line.n + line.lost)) - 1;
  return rank >= line.n ? null : line.x[countAtOrBelow(line.c, Math.max(rank, 0))] / 1000;
}

function ninesOf(lines) {
  const most = Math.max(...lines.map((line) => line.n + line.lost)), grid = [];
  for (let x = 1; x < most; x *= 1.02) grid.push(x);
  grid.push(most);
  const cells = lines.map((line) => grid.map((x) => x > (line.n + line.lost) * 1.0001 ? null : atNines(line, x)));
  return [grid, ...cells];
}

function sharesOf(lines, band) {
  const tables = lines.map((line) => [line.x.map((x) => x / 1000), line.c.map((count) => count / (line.n + line.lost))]);
  if (band) for (const line of lines) if (line.band) for (const edge of ["high", "low"]) tables.push([line.band.x.map((x) => x / 1000), line.band[edge]]);
  return uPlot.join(tables);
}

function distributions(root) {
  const state = { group: 0, metric: root.dataset.first, view: "nines", band: false, off: new Set() };
  const place = root.querySelector(".panels"), legend = root.querySelector(".legend"), readout = root.querySelector(".readout");
  const lines = () => DATA.groups[state.group].lines.filter((line) => line.metrics[state.metric]);
  const shown = () => lines().filter((line) => !state.off.has(line.label));
  const own = (line) => line.metrics[state.metric];
  const measured = (metric) => DATA.groups[state.group].lines.some((line) => line.metrics[metric]);
  const many = () => shown().length > TOGETHER;

  function series(line) {
    const i = lines().indexOf(line);
    return () => ({ label: line.label, stroke: colour(i), width: 2, dash: dash(i), points: { show: false }, spanGaps: true });
  }

  // The names stand at the ends of their lines, so that no colour is needed; moved apart where they would overlap.
  function names(chosen) {
    return (plot) => {
      const ends = chosen.map((line, k) => {
        let last = plot.data[0].length - 1;
        while (last > 0 && (plot.data[k + 1][last] === null || plot.data[k + 1][last] === undefined)) last--;
        return { line, x: plot.valToPos(plot.data[0][last], "x", true), y: plot.valToPos(plot.data[k + 1][last], "y", true) };
      }).sort((a, b) => a.y - b.y);
      const { ctx, bbox } = plot, size = 11 * devicePixelRatio, right = bbox.left + bbox.width;
      ctx.save();
      ctx.font = `${size}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      ends.forEach((end, k) => {
        if (k) end.y = Math.max(end.y, ends[k - 1].y + size * 1.2);
        ctx.fillStyle = colour(lines().indexOf(end.line));
        ctx.fillText(end.line.label, clamp(end.x, bbox.left, right) + size * 0.4, end.y + size * 0.35);
      });
      ctx.restore();
    };
  }

  const VIEWS = {
    nines: {
      title: "Latency against the share of cycles answered within it",
      data: (chosen) => ninesOf(chosen.map(own)),
      options: () => ({
        scales: { x: { time: false, distr: 3, log: 10, range: (_, low, high) => [low, high] }, y: { range: (_, low, high) => [0, high * 1.08 || 1] } },
        axes: [{ label: many() ? "cycles answered within" : "cycles answered within, each step one more nine", splits: (plot) => NINES.filter((x) => x <= plot.scales.x.max * 1.001 && x >= plot.scales.x.min * 0.999), filter: (_, at) => at, values: (_, at) => at.map((x) => percent(1 - 1 / x)) },
          { label: `${state.metric} in ms`, size: 52 }],
      }),
      read: (x) => [`${percent(1 - 1 / x)} were answered within`, (line) => { const ms = atNines(own(line), x); return ms === null ? "lost" : `${ms.toFixed(3)} ms`; }],
    },
    cdf: {
      title: "Cumulative distribution of latency",
      data: (chosen) => sharesOf(chosen.map(own), state.band),
      options: (chosen) => ({
        scales: { x: { time: false, range: (plot, low, high) => zoomed(plot, low, high, chosen.map(own)) }, y: { range: () => [0, 1] } },
        axes: [{ label: `${state.metric} in ms` }, { label: "cycles answered within", size: 52, values: (_, at) => at.map(percent) }],
      }),
      read: (x) => [`within ${x.toFixed(3)} ms were answered`, (line) => { const d = own(line), index = countAtOrBelow(d.x, x * 1000); return percent(index ? d.c[index - 1] / (d.n + d.lost) : 0); }],
    },
  };

  // At first the body, where 98 % lie, for a single slow answer would squeeze it; zooming out shows the rest.
  function zoomed(plot, low, high, all) {
    if (plot.data[0][0] !== low || plot.data[0].at(-1) !== high) return [low, high];
    const first = Math.min(...all.map((d) => d.x[0])) / 1000, body = Math.max(...all.map((d) => d.x[Math.min(countAtOrBelow(d.c, d.n * 0.98), d.x.length - 1)])) / 1000;
    return [Math.max(first - (body - first) * 0.03, 0), body + (body - first) * 0.06];
  }

  function draw(view, chosen, title, height) {
    const named = view === "nines" && height > 200, kind = VIEWS[view], figure = html("figure", { class: "panel" }, place);
    html("figcaption", {}, figure, title);
    const options = { height, ...kind.options(chosen), series: [{}, ...chosen.map(series)], cursor: { sync: { key: `distributions-${view}` }, focus: { prox: 30 } }, hooks: { setCursor: [(plot) => read(plot, view, chosen)], draw: named ? [names(chosen)] : [] } };
    if (named) options.padding = [null, Math.min(Math.max(...chosen.map((line) => line.label.length)) * 6.2 + 8, place.clientWidth * 0.3), null, null];
    if (view === "cdf") options.series = options.series.map((one, k) => k ? () => ({ ...one(), paths: uPlot.paths.stepped({ align: 1 }) }) : one);
    if (view === "cdf" && state.band) addBands(options, chosen);
    panels.push(new Panel(html("div", {}, figure), options, kind.data(chosen), `${kind.title}, ${title}`));
  }

  function addBands(options, chosen) {
    options.bands = [];
    for (const line of chosen.filter((one) => own(one).band)) {
      const i = lines().indexOf(line), at = options.series.length;
      for (let edge = 0; edge < 2; edge++) options.series.push(() => ({ stroke: "transparent", points: { show: false }, spanGaps: true, paths: uPlot.paths.stepped({ align: 1 }) }));
      options.bands.push({ series: [at, at + 1], fill: () => `color-mix(in srgb, ${colour(i)} 18%, transparent)` });
    }
  }

  function read(plot, view, chosen) {
    const { left } = plot.cursor;
    readout.replaceChildren();
    if (left === undefined || left < 0) { readout.textContent = root.dataset.hint; return; }
    const [what, value] = VIEWS[view].read(Math.max(plot.posToVal(left, "x"), view === "nines" ? 1 : 0));
    html("span", {}, readout, `${state.metric}: ${what}`);
    for (const line of many() ? shown() : chosen) html("b", {}, html("span", {}, readout, `${line.label} `), value(line));
  }

  function update() {
    panels = panels.filter((panel) => !place.contains(panel.host) || panel.remove());
    place.replaceChildren();
    for (const button of root.querySelectorAll("[data-metric]")) button.disabled = !measured(button.dataset.metric);
    if (!measured(state.metric)) state.metric = Object.keys(DATA.groups[state.group].lines[0].metrics)[0];
    root.querySelector("[data-bands]").hidden = !lines().some((line) => own(line).band);
    const chosen = shown();
    place.classList.toggle("many", many());
    if (many()) {
      html("p", { class: "quiet wide-note" }, place, `Each beside ${chosen[0].label}; all in ${state.metric}.`);
      for (const line of chosen.slice(1)) draw(state.view, [chosen[0], line], line.label, 190);
    }
    else if (chosen.length) { draw("nines", chosen, `${state.metric}: how late, up to the last nine`, 340); draw("cdf", chosen, `${state.metric}: where most answers lie`, 340); }
    for (const button of root.querySelectorAll("[data-metric]")) button.setAttribute("aria-pressed", button.dataset.metric === state.metric);
    for (const button of root.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", button.dataset.view === state.view);
    root.querySelector("[data-views]").hidden = !many();
    drawLegend();
    readout.textContent = root.dataset.hint;
  }

  function drawLegend() {
    legend.replaceChildren();
    lines().forEach((line, i) => {
      const label = html("label", {}, legend), box = html("input", { type: "checkbox" }, label), d = own(line);
      box.checked = !state.off.has(line.label);
      box.addEventListener("change", () => { state.off[box.checked ? "delete" : "add"](line.label); update(); });
      key(i, label);
      label.append(`${line.label} (n = ${(d.n + d.lost).toLocaleString("en")}${d.lost ? `, ${d.lost.toLocaleString("en")} lost` : ""})`);
    });
  }

  for (const button of root.querySelectorAll("[data-metric]")) button.addEventListener("click", () => { state.metric = button.dataset.metric; update(); });
  for (const button of root.querySelectorAll("[data-view]")) button.addEventListener("click", () => { state.view = button.dataset.view; update(); });
  const band = root.querySelector("[data-band]");
  band.addEventListener("change", () => { state.band = band.checked; update(); });
  root.querySelector("[data-reset]").addEventListener("click", update);
  const group = root.querySelector("[data-group]");
  if (group) group.addEventListener("change", () => { state.group = Number(group.value); state.off.clear(); update(); });
  update();
}

// ---- Over time: latency of one repetition above, what the host and the services suffered beneath -------------------

function timelines(root) {
  const cell = root.querySelector("[data-cell]"), repetition = root.querySelector("[data-repetition]");
  const readout = root.querySelector(".readout"), place = root.querySelector(".panels"), table = root.querySelector(".table");
  const current = () => DATA.timelines[Number(cell.value)].repetitions[Number(repetition.value)];
  const quantities = (run) => DATA.quantities.filter((quantity) => run.causes[quantity.name]);
  const seconds = (at) => at.map((ms) => ms / 1000);
  const cursor = { sync: { key: "time", scales: ["x", null] }, drag: { x: true, y: false } };
  const hooks = { setCursor: [(plot) => read(plot)] };

  function panel(title, options, data) {
    const figure = html("figure", { class: "panel" }, place);
    html("figcaption", {}, figure, title);
    panels.push(new Panel(html("div", {}, figure), options, data, title));
  }

  function latency(run, end) {
    const lost = run.lost.map((at) => [at / 1000, null, 0]), answered = run.at.map((at, i) => [at / 1000, run.t[i] / 1000, null]);
    const rows = [...lost, ...answered].sort((a, b) => a[0] - b[0]), top = Math.max(...rows.map((row) => row[1] || 0), 0.1) * 1.1;
    const points = (name, size, fill) => () => ({ label: name, paths: () => null, points: { show: true, size, fill: css(fill), stroke: css(fill), width: 0 } });
    const deadline = (plot) => {
      if (run.deadline_ms > top) return;
      const y = plot.valToPos(run.deadline_ms, "y", true), { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = css("--bad");
      ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
      ctx.restore();
    };
    panel(`${DATA.round_trip} in ms: ${DATA.timelines[Number(cell.value)].label}, ${run.label}${run.thinned ? ", the slowest of each slice" : ""}${run.lost.length ? `; ${run.lost.length} lost, marked below` : ""}`, {
      height: 220, scales: { x: { time: false, range: (_, low, high) => high - low >= end * 0.999 ? [0, end] : [low, high] }, y: { range: () => [-top * 0.04, top] } }, axes: [{}, { size: 56 }],
      series: [{}, points("T", 4, "--c0"), points("lost", 8, "--bad")], cursor, hooks: { ...hooks, draw: [deadline] },
    }, [0, 1, 2].map((column) => rows.map((row) => row[column])));
  }

  function cause(run, quantity, end) {
    const all = run.causes[quantity.name], top = Math.max(...all.flatMap((one) => one.v.filter((v) => v !== null)), quantity.least) * 1.15;
    panel(quantity.label, {
      height: 110, scales: { x: { time: false, range: (_, low, high) => high - low >= end * 0.999 ? [0, end] : [low, high] }, y: { range: () => [0, top] } }, axes: [{}, { size: 56, space: 24 }], cursor, hooks,
      series: [{}, ...all.map((one) => { const i = DATA.services.indexOf(one.service); return () => ({ label: one.service, stroke: colour(i), dash: dash(i), width: 1.6, points: { show: false }, spanGaps: true, paths: uPlot.paths.stepped({ align: -1 }) }); })],
    }, uPlot.join([[[0, end], [null, null]], ...all.map((one) => [seconds(one.at), one.v])]).filter((_, i) => i !== 1));
  }

  function read(plot) {
    readout.replaceChildren();
    const { left } = plot.cursor;
    if (left === undefined || left < 0) { readout.textContent = root.dataset.hint; return; }
    const at = plot.posToVal(left, "x");
    html("span", {}, readout, `${at.toFixed(2)} s`);
    for (const [what, value] of valuesAt(current(), at)) html("b", {}, html("span", {}, readout, `${what} `), value);
  }

  function valuesAt(run, at) {
    const found = [], i = countAtOrBelow(run.at, at * 1000) - 1;
    if (i >= 0) found.push([DATA.round_trip, `${(run.t[i] / 1000).toFixed(3)} ms`]);
    for (const quantity of quantities(run)) for (const one of run.causes[quantity.name]) {
      const k = countAtOrBelow(one.at, at * 1000) - 1;
      if (k >= 0 && one.v[k]) found.push([`${quantity.short} ${one.service}`, plain(one.v[k])]);
    }
    return found;
  }

  // The same for who cannot see the plots: made only when it is opened.
  function tabulate() {
    const body = table.querySelector("tbody"), run = current(), end = Math.max(run.at.at(-1) || 0, ...run.lost);
    body.replaceChildren();
    const slices = Math.min(50, Math.max(run.at.length, 1)), width = (end + 1) / slices;
    for (let i = 0; i < slices; i++) {
      const own = run.t.filter((_, k) => run.at[k] >= i * width && run.at[k] < (i + 1) * width), lost = run.lost.filter((at) => at >= i * width && at < (i + 1) * width).length;
      const row = html("tr", {}, body);
      html("th", { scope: "row" }, row, (i * width / 1000).toFixed(2));
      html("td", {}, row, own.length ? (Math.max(...own) / 1000).toFixed(3) : "");
      html("td", {}, row, String(lost));
      html("td", { class: "text" }, row, valuesAt(run, (i + 1) * width / 1000).slice(1).map((pair) => pair.join(" ")).join(", "));
    }
  }

  function update() {
    panels = panels.filter((one) => !place.contains(one.host) || one.remove());
    place.replaceChildren();
    const run = current(), end = Math.max(run.at.at(-1) || 0, ...run.lost, 1) / 1000;
    latency(run, end);
    for (const quantity of quantities(run)) cause(run, quantity, end);
    readout.textContent = root.dataset.hint;
    if (table.open) tabulate();
  }

  function choose() {
    repetition.replaceChildren();
    DATA.timelines[Number(cell.value)].repetitions.forEach((run, i) => html("option", { value: i }, repetition, run.label));
    update();
  }

  cell.addEventListener("change", choose);
  repetition.addEventListener("change", update);
  table.addEventListener("toggle", () => table.open && tabulate());
  root.querySelector("[data-reset]").addEventListener("click", update);
  DATA.services.forEach((service, i) => {
    const label = html("span", {}, root.querySelector(".legend"));
    key(i, label);
    label.append(` ${service}`);
  });
  choose();
}

const redraw = () => { for (const panel of panels) panel.draw(); };
if (DATA.groups.length) distributions(document.getElementById("distributions"));
if (DATA.timelines.length) {
  // Drawn once it is opened: a folded box has no width.
  const place = document.getElementById("timelines"), folded = place.querySelector("details");
  const once = () => { if (folded.open && !place.dataset.drawn) { place.dataset.drawn = ""; timelines(place); } };
  folded.addEventListener("toggle", once);
  addEventListener("beforeprint", () => { folded.open = true; once(); });  // the toggle itself comes too late
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// On paper there is nothing to unfold, and no dark.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details.section")) details.open = true;
  document.documentElement.dataset.print = "";
  redraw();
});
addEventListener("afterprint", () => { delete document.documentElement.dataset.print; redraw(); });
// A link to something folded unfolds it.
function unfold() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  if (target) { const own = target.querySelector(":scope > details.section"); if (own) own.open = true; }
}
addEventListener("hashchange", unfold);
unfold();
document.documentElement.dataset.ready = "1";
