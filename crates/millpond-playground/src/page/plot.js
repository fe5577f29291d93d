// A figure over time, a line for each system.

const PLOT = { left: 52, right: 10, top: 8, bottom: 22, height: 170 };
const DASHES = ["", "7 4", "2 3"];

// The least round number that is no less.
const roundUp = number => {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1e-9)));
  return [1, 2, 5, 10].map(step => step * power).find(step => step >= number);
};

const showPlot = (svg, scene, titles, points, at) => {
  const { plot } = scene;
  const every = plot.every_ms;
  const value = (n, column) => {
    const now = points[n][column];
    if (plot.per_ms === 0) return now;
    return n === 0 ? now : (now - points[n - 1][column]) * plot.per_ms / every;
  };
  const width = svg.clientWidth || 600;
  const inner = { width: width - PLOT.left - PLOT.right, height: PLOT.height - PLOT.top - PLOT.bottom };
  const count = points.length;
  let most = 0;
  for (let n = 0; n < count; n += 1) {
    for (let column = 0; column < titles.length; column += 1) most = Math.max(most, value(n, column) || 0);
  }
  most = plot.top > 0 ? plot.top : roundUp(most || 1);
  const span_ms = Math.max(every * 10, at / 1e6);
  const x = n => PLOT.left + n * every / span_ms * inner.width;
  const y = v => PLOT.top + (1 - v / most) * inner.height;
  const inside = [];
  for (const share of [0, 0.5, 1]) {
    inside.push(draw("line", { x1: PLOT.left, x2: width - PLOT.right, y1: y(most * share), y2: y(most * share), stroke: "var(--grid)" }));
    inside.push(draw("text", { x: PLOT.left - 6, y: y(most * share) + 4, "text-anchor": "end" }, fixed(most * share, most < 4 ? 1 : 0)));
  }
  inside.push(draw("text", { x: PLOT.left, y: PLOT.height - 4 }, "0"));
  inside.push(draw("text", { x: width - PLOT.right, y: PLOT.height - 4, "text-anchor": "end" }, span(span_ms * 1e6)));
  const words = [];
  titles.forEach((title, column) => {
    // No more points than the picture has room for: of each group the greatest.
    const group = Math.max(1, Math.ceil(count / inner.width));
    const line = [];
    for (let n = 0; n < count; n += group) {
      let top = 0;
      for (let k = n; k < Math.min(n + group, count); k += 1) top = Math.max(top, value(k, column) || 0);
      line.push(`${x(n).toFixed(1)},${y(Math.min(top, most)).toFixed(1)}`);
    }
    inside.push(draw("polyline", { points: line.join(" "), fill: "none", stroke: `var(--${OWN[column]})`, "stroke-width": 2, "stroke-dasharray": DASHES[column], "stroke-linejoin": "round" }));
    if (count > 0) words.push(`${title} ${fixed(value(count - 1, column) || 0, 1)}`);
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${PLOT.height}`);
  svg.setAttribute("aria-label", `${plot.label}; now: ${words.join(", ")}`);
  svg.replaceChildren(...inside);
};
