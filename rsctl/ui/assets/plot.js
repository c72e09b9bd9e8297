// Draws the charts of a report in the browser, in the look of the report's own drawings.
"use strict";

const Plots = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const CIVIDIS = [[0, 34, 78], [62, 76, 109], [124, 123, 120], [187, 175, 113], [254, 232, 56]];

  function node(parent, tag, attributes = {}, text) {
    const made = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  const color = (name) => `var(--${name})`;

  // As the report writes numbers. A tick has the digits that tell it from its neighbors.
  function format(value, step) {
    if (value === 0) return "0";
    const size = Math.abs(value), digits = step ? Math.min(15, Math.max(4, 2 + Math.floor(Math.log10(size / step)))) : 4;
    const most = step ? Math.max(1e8, 10 ** (digits + 2)) : 1e12;
    if (size >= most || size < 1e-4) return Number(value.toPrecision(digits)).toExponential().replace("e+", "e");
    return value.toLocaleString("en", size >= 1e4 && !step ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits });
  }

  function ticks(low, high, most, whole) {
    const rough = (high - low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
    if (whole) step = Math.max(1, Math.ceil(step));
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9 && found.length < 50; n++) found.push(n * step);
    return { values: found, step };
  }

  function decades(low, high) {
    const found = [];
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first) / 5));
    for (let n = first; n <= last; n += every) found.push(10 ** n);
    return found.length > 1 ? found : [low, high];
  }

  function begin(place, plot, width, height) {
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", plot.title);
    svg.classList.add("drawing");
    place.replaceChildren(svg);
    return svg;
  }

  const path = (points, x, y) => points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");

  function drawLines(place, plot, width) {
    const height = 206, top = 22, bottom = height - 36;
    const svg = begin(place, plot, width, height);
    const all = [...plot.lines.map((l) => l.points), ...plot.others, plot.reference || []].flat();
    if (!all.length) return;
    const ys = plot.log ? decades(plot.low, plot.high) : ticks(plot.low, plot.high, 5).values;
    const step = plot.log ? 0 : ticks(plot.low, plot.high, 5).step;
    const labels = ys.map((v) => format(v, step));
    const left = Math.min(84, 10 + 7 * Math.max(...labels.map((l) => l.length)));
    let x0 = Infinity, x1 = -Infinity;
    for (const [x] of all) { if (x < x0) x0 = x; if (x > x1) x1 = x; }
    if (x0 === x1) { x0 -= 1; x1 += 1; }
    const space = (x1 - x0) * 0.03;
    x0 -= space; x1 += space;
    const whole = all.slice(0, 50).every(([v]) => Number.isInteger(v));
    const across = ticks(x0, x1, Math.max(3, Math.min(7, width / 70)), whole);
    const below = across.values.map((v) => format(v, across.step));
    const right = width - Math.max(10, 3.3 * (below.at(-1) ?? "").length);
    const x = (v) => left + ((v - x0) / (x1 - x0)) * (right - left);
    const at = plot.log ? (v) => Math.log10(Math.max(v, Number.MIN_VALUE)) : (v) => v;
    const clamp = (v) => Math.min(Math.max(v, plot.low), plot.high);
    const y = (v) => bottom - ((at(clamp(v)) - at(plot.low)) / (at(plot.high) - at(plot.low) || 1)) * (bottom - top);
    across.values.forEach((value, i) => {
      node(svg, "path", { d: `M${x(value)} ${top}V${bottom}`, class: "grid" });
      node(svg, "text", { x: x(value), y: bottom + 15, class: "middle" }, below[i]);
    });
    ys.forEach((value, i) => {
      node(svg, "path", { d: `M${left} ${y(value)}H${right}`, class: "grid" });
      node(svg, "text", { x: left - 6, y: y(value) + 4, class: "end" }, labels[i]);
    });
    node(svg, "path", { d: `M${left} ${top}V${bottom}H${right}`, class: "axis" });
    node(svg, "text", { x: left, y: 12, class: "faintly" }, plot.y + (plot.log ? ", logarithmic" : ""));
    node(svg, "text", { x: (left + right) / 2, y: height - 4, class: "middle" }, plot.x);
    if (plot.band) {
      const upper = plot.band.map((r) => [r[0], r[3]]), lower = plot.band.map((r) => [r[0], r[1]]).reverse();
      node(svg, "path", { d: `${path([...upper, ...lower], x, y)}Z`, fill: color("c1"), opacity: 0.25 });
    }
    for (const points of plot.others) node(svg, "path", { d: path(points, x, y), class: "line", stroke: color("faint"), "stroke-width": 0.8, opacity: 0.35 });
    for (const line of plot.lines) {
      node(svg, "path", { d: path(line.points, x, y), class: "line", stroke: color(line.color), "stroke-dasharray": line.dashes.join(" ") });
      const dots = line.points.length <= 12 ? line.points : line.points.slice(-1);
      for (const [px, py] of dots) if (py >= plot.low && py <= plot.high) node(svg, "circle", { cx: x(px), cy: y(py), r: 2.4, fill: color(line.color) });
      for (const [px, py] of line.points) {
        if (py > plot.high) node(svg, "path", { d: `M${x(px) - 4} ${top + 5}h8l-4 -7Z`, fill: color(line.color) });
        if (py < plot.low) node(svg, "path", { d: `M${x(px) - 4} ${bottom - 5}h8l-4 7Z`, fill: color(line.color) });
      }
    }
    if (plot.reference) node(svg, "path", { d: path(plot.reference, x, y), class: "line", stroke: color("faint"), "stroke-dasharray": "3 3" });
    pointAt(svg, plot, x, y, { left, right, top, bottom, width });
  }

  // The values under the pointer, nearest in x.
  function pointAt(svg, plot, x, y, box) {
    const mark = node(svg, "g", { class: "mark" });
    svg.addEventListener("pointerleave", () => mark.replaceChildren());
    svg.addEventListener("pointermove", (event) => {
      const bounds = svg.getBoundingClientRect();
      const px = ((event.clientX - bounds.left) / bounds.width) * box.width;
      mark.replaceChildren();
      if (px < box.left - 8 || px > box.right + 8) return;
      const near = plot.lines.filter((l) => l.points.length).map((line) => {
        let best = line.points[0];
        for (const p of line.points) if (Math.abs(x(p[0]) - px) < Math.abs(x(best[0]) - px)) best = p;
        return { line, best };
      });
      if (!near.length) return;
      const at = near.reduce((a, b) => (Math.abs(x(a.best[0]) - px) <= Math.abs(x(b.best[0]) - px) ? a : b)).best[0];
      node(mark, "path", { d: `M${x(at)} ${box.top}V${box.bottom}`, class: "cursor" });
      const rows = [[null, `${plot.x.replace("time since", "since")}: ${format(at)}`]];
      for (const { line, best } of near.slice(0, 9)) {
        node(mark, "circle", { cx: x(best[0]), cy: y(best[1]), r: 3.5, fill: color(line.color), class: "ring" });
        rows.push([line.color, `${plot.lines.length > 1 || plot.band ? `${line.label}  ` : ""}${format(best[1])}`]);
      }
      const wide = Math.min(box.width - 20, 22 + 6.3 * Math.max(...rows.map(([, t]) => t.length))), high = 8 + 15 * rows.length;
      const bx = x(at) + 12 + wide > box.right ? Math.max(2, x(at) - 12 - wide) : x(at) + 12;
      node(mark, "rect", { x: bx, y: box.top, width: wide, height: high, rx: 5, class: "tip" });
      rows.forEach(([name, text], i) => {
        if (name) node(mark, "rect", { x: bx + 7, y: box.top + 8 + 15 * i, width: 7, height: 7, rx: 2, fill: color(name) });
        node(mark, "text", { x: bx + (name ? 19 : 7), y: box.top + 15 + 15 * i, class: name ? "" : "faintly" }, text);
      });
    });
  }

  function axisBelow(svg, low, high, left, right, top, bottom, title) {
    const x = (v) => left + ((v - low) / (high - low || 1)) * (right - left);
    const marks = ticks(low, high, Math.max(3, Math.min(8, (right - left) / 80)));
    for (const value of marks.values) {
      node(svg, "path", { d: `M${x(value)} ${top}V${bottom}`, class: "grid" });
      node(svg, "text", { x: x(value), y: bottom + 15, class: "middle" }, format(value, marks.step));
    }
    node(svg, "path", { d: `M${left} ${bottom}H${right}`, class: "axis" });
    node(svg, "text", { x: (left + right) / 2, y: bottom + 31, class: "middle" }, title);
    return x;
  }

  // Where each row is: dense rows have their label at the left, others above them.
  function layout(plot, width) {
    const each = plot.dense ? 12 : 31;
    const left = plot.dense ? 14 + 5.4 * Math.max(...plot.rows.map((r) => r.label.length)) : 10;
    const bottom = 6 + each * plot.rows.length;
    const middle = (i) => 6 + each * i + (plot.dense ? 6 : 22);
    return { left, bottom, height: bottom + 36, middle, thick: plot.dense ? 8 : 12, most: Math.floor((width - left) / 6.6) };
  }

  function label(svg, plot, row, i, at) {
    if (plot.dense) node(svg, "text", { x: at.left - 6, y: at.middle(i) + 3, class: "end small" }, row.label);
    else node(svg, "text", { x: at.left, y: at.middle(i) - 10, class: "row" }, row.label.length > at.most ? `${row.label.slice(0, at.most / 2 - 1)}…${row.label.slice(-at.most / 2)}` : row.label);
  }

  function drawTimeline(place, plot, width) {
    const at = layout(plot, width), right = width - 14;
    const svg = begin(place, plot, width, at.height);
    const last = Math.max(...plot.rows.flatMap((r) => [...r.spans.map((s) => s[1]), ...r.marks.map((m) => m[0])]), 1e-9);
    const x = axisBelow(svg, 0, last, at.left, right, 4, at.bottom, plot.x);
    const time = (value) => `${format(value)} ${plot.x.replace(/.*\(|\)/g, "")}`;
    plot.rows.forEach((row, i) => {
      label(svg, plot, row, i, at);
      for (const [start, end, name, kind] of row.spans) {
        const bar = node(svg, "rect", { x: x(start), y: at.middle(i) - at.thick / 2, width: Math.max(1, x(end) - x(start)), height: at.thick, fill: color(name) });
        node(bar, "title", {}, `${row.label}: ${kind}, ${time(start)} to ${time(end)}`);
      }
      for (const [when, name, symbol, kind] of row.marks) {
        const text = node(svg, "text", { x: x(when), y: at.middle(i) + (plot.dense ? 3.5 : 5), fill: color(name), class: plot.dense ? "symbol small" : "symbol" }, symbol);
        node(text, "title", {}, `${row.label}: ${kind} at ${time(when)}`);
      }
    });
  }

  function drawRows(place, plot, width) {
    const at = layout(plot, width);
    const svg = begin(place, plot, width, at.height);
    const values = plot.rows.flatMap((r) => r.dots || [r.value, r.low, r.high]).filter((v) => v !== null && v !== undefined);
    const zero = plot.dots ? [] : [0]; // dots differ by little of their size
    const high = Math.max(...values, ...zero), low = Math.min(...values, ...zero), extent = high - low || Math.abs(high) || 1;
    const x = axisBelow(svg, low < 0 || plot.dots ? low - extent * 0.06 : 0, high + extent * (plot.bars ? 0.14 : 0.06), at.left, width - 14, 4, at.bottom, plot.x);
    plot.rows.forEach((row, i) => {
      label(svg, plot, row, i, at);
      const y = at.middle(i);
      if (row.dots?.length) {
        const tall = plot.dense ? 4 : 7;
        node(svg, "path", { d: `M${x(row.median)} ${y - tall}v${2 * tall}`, class: "line", stroke: color("ink") });
        for (const v of row.dots) node(svg, "circle", { cx: x(v), cy: y, r: plot.dense ? 2.4 : 3.6, fill: color("c1"), opacity: 0.7 });
      } else if (row.dots || row.value === null) node(svg, "text", { x: at.left + 4, y: y + 4, class: "faintly" }, row.text);
      else if (plot.bars) {
        node(svg, "rect", { x: Math.min(x(0), x(row.value)), y: y - at.thick / 2, width: Math.abs(x(row.value) - x(0)), height: at.thick, fill: color("c1") });
        node(svg, "text", { x: Math.max(x(0), x(row.value)) + 5, y: y + 3.5, class: plot.dense ? "small" : "" }, row.text);
      } else node(svg, "circle", { cx: x(row.value), cy: y, r: 4, fill: color("c1") });
      if (row.low != null && row.high != null) node(svg, "path", { d: `M${x(row.low)} ${y}H${x(row.high)}M${x(row.low)} ${y - 4}v8M${x(row.high)} ${y - 4}v8`, class: "line", stroke: color(plot.bars ? "ink" : "c1") });
    });
    if (low < 0 && high >= 0) node(svg, "path", { d: `M${x(0)} 4V${at.bottom}`, class: "axis" });
  }

  function drawHeat(place, plot, width) {
    const left = 16 + 6.6 * Math.max(...plot.rows.map((r) => r.length), plot.y.length / 2), top = 20, each = plot.dense ? 14 : 32, size = plot.dense ? " small" : "";
    const svg = begin(place, plot, width, top + each * plot.rows.length + 36);
    const known = plot.values.flat().filter((v) => v !== null), low = Math.min(...known), high = Math.max(...known);
    const wide = (width - left - 8) / plot.columns.length, bottom = top + each * plot.rows.length;
    node(svg, "text", { x: 0, y: 12, class: "faintly" }, plot.y);
    plot.columns.forEach((name, i) => node(svg, "text", { x: left + wide * (i + 0.5), y: bottom + 14, class: "middle" }, name));
    node(svg, "text", { x: (left + width) / 2, y: bottom + 30, class: "middle" }, plot.x);
    plot.rows.forEach((name, r) => {
      node(svg, "text", { x: left - 6, y: top + each * (r + 0.5) + 4, class: `end${size}` }, name);
      plot.columns.forEach((_, c) => {
        const value = plot.values[r][c];
        const part = value === null ? 0 : (value - low) / (high - low || 1);
        node(svg, "rect", { x: left + wide * c + 1, y: top + each * r + 1, width: wide - 2, height: each - 2, rx: plot.dense ? 1 : 3, fill: value === null ? color("grid") : shade(part) });
        if (value !== null) node(svg, "text", { x: left + wide * (c + 0.5), y: top + each * (r + 0.5) + 4, class: `middle${size}`, fill: part > 0.47 ? "#000" : "#fff" }, plot.texts[r][c]);
      });
    });
  }

  function shade(part) {
    const place = part * (CIVIDIS.length - 1), i = Math.min(CIVIDIS.length - 2, Math.floor(place)), rest = place - i;
    return `rgb(${CIVIDIS[i].map((v, n) => Math.round(v + (CIVIDIS[i + 1][n] - v) * rest)).join(",")})`;
  }

  const DRAW = { line: drawLines, timeline: drawTimeline, rows: drawRows, heat: drawHeat };

  function draw(place, plot) {
    const width = Math.round(place.clientWidth);
    if (plot && DRAW[plot.kind] && width > 0) DRAW[plot.kind](place, plot, width);
  }

  return { draw };
})();
