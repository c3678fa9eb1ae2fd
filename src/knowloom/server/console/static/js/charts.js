// Plots as SVG: measures with their intervals, for one or two configurations.

import { s } from "./dom.js";

const WIDTH = 640, LABEL = 110, VALUE = 56, BAR = 15, GAP = 16;

/** Bars from 0 to 1 with confidence intervals. */
export function measureChart(configurations) {
  const measures = Object.keys(configurations[0].measures);
  const step = configurations.length * BAR + GAP;
  const scale = (value) => LABEL + value * (WIDTH - LABEL - VALUE);
  const rows = measures.flatMap((measure, index) => [
    s("text", { x: LABEL - 10, y: index * step + 8 + (configurations.length * BAR) / 2, "text-anchor": "end", class: "value" }, measure),
    ...configurations.map((configuration, each) => bar(configuration.measures[measure], scale, index * step + 4 + each * BAR, each))]);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((value) => s("line", { class: "axis", x1: scale(value), x2: scale(value), y1: 0, y2: measures.length * step }));
  const summary = measures.map((measure) => `${measure}: ${configurations.map((each) => `${each.name} ${each.measures[measure]?.mean.toFixed(3)}`).join(", ")}`).join("; ");
  return s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${measures.length * step + 4}`, role: "img", "aria-label": summary }, ticks, rows);
}

function bar(measure, scale, y, each) {
  if (!measure) return [];
  const colour = { fill: `var(--p${each})` };
  return [
    s("rect", { x: scale(0), y, width: Math.max(1, scale(measure.mean) - scale(0)), height: BAR - 4, rx: 3, style: colour }),
    s("line", { x1: scale(measure.low), x2: scale(measure.high), y1: y + (BAR - 4) / 2, y2: y + (BAR - 4) / 2, style: { stroke: "var(--text)", "stroke-width": "1.5" } }),
    s("text", { x: WIDTH - VALUE + 10, y: y + BAR - 6, class: "value" }, measure.mean.toFixed(3)),
  ];
}

/** The change of each question, worst first: bars to the left are worse. */
export function changeChart(changes) {
  const height = Math.max(40, changes.length * 7 + 8);
  const middle = WIDTH / 2;
  const bars = changes.map((change, index) => {
    const size = Math.max(1, Math.abs(change.by) * (WIDTH / 2 - 10));
    return s("rect", { x: change.by < 0 ? middle - size : middle, y: 4 + index * 7, width: size, height: 5, rx: 2, style: { fill: change.by < 0 ? "var(--danger)" : "var(--good)" } });
  });
  return s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${changes.filter((each) => each.by < 0).length} questions got worse, ${changes.filter((each) => each.by > 0).length} better` },
    s("line", { class: "axis", x1: middle, x2: middle, y1: 0, y2: height }), bars);
}
