// Lines over time, drawn by uPlot, with the numbers as a table for those who do not see them.
import { useEffect, useRef } from "./vendor/preact-hooks.js";
import { html } from "./ui.js";
import { scheme } from "./settings.js";

const COLORS = { light: ["#0b62c4", "#b4541a", "#17754a"], dark: ["#62a8ff", "#f2935a", "#4cc38a"] };
const AXES = { light: { ink: "#56616e", grid: "#e3e7ec" }, dark: { ink: "#a3adba", grid: "#2c3440" } };

/** lines: [{name, values, write}]; `at` are seconds, or any numbers if `isTime` is false. */
export function Chart({ at, lines, label, height = 200, isTime = true, writeAt = String }) {
  const box = useRef(null);
  const ground = scheme.value;
  useEffect(() => {
    const { ink, grid } = AXES[ground];
    const times = [[86400, "{YYYY}-{MM}-{DD}"], [60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"]].map(([step, text]) => [step, text, null, null, null, null, null, null, 1]);
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, font: "11px system-ui" };
    const series = lines.map((line, place) => ({
      label: line.name, stroke: COLORS[ground][place % 3], width: 1.5, value: (_, value) => (value === null || value === undefined ? "–" : line.write(value)),
      points: { show: at.length < 40 }, spanGaps: false,
    }));
    const plot = new globalThis.uPlot({
      width: box.current.clientWidth, height, tzDate: (seconds) => globalThis.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { time: isTime }, y: { range: (_, low, high) => [0, (high || 1) * 1.08] } },
      axes: [isTime ? { ...axis, values: times, space: 70 } : { ...axis, values: (_, ticks) => ticks.map(writeAt) },
        { ...axis, size: 76, values: (_, ticks) => ticks.map((tick) => lines[0].write(tick)) }],
      series: [isTime ? { label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" } : { label: "size", value: (_, value) => (value === null || value === undefined ? "–" : writeAt(value)) }, ...series],
    }, [at, ...lines.map((line) => line.values)], box.current);
    const watch = new ResizeObserver(() => plot.setSize({ width: box.current.clientWidth, height }));
    watch.observe(box.current);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [at, lines.map((line) => line.values.length).join(), ground]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${box}></div>`;
}
