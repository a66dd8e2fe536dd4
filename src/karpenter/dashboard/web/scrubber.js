// The bar at the bottom: the moment that is looked at, decisions as marks, and cost as a line.
import { useEffect } from "./vendor/preact-hooks.js";
import { computed, signal } from "./vendor/signals.js";
import { got } from "./api.js";
import { moment as written } from "./format.js";
import { adjust, route } from "./router.js";
import { decisions, isPast, live, present } from "./stream.js";
import { html } from "./ui.js";

const REFRESH_MS = 60_000;
const SPEEDS = [1, 10, 60];
const TICK_MS = 1000;
const series = signal(null); // cost over time
const records = signal([]); // older than what the stream brought
const speed = signal(0); // 0: stands
let timer = 0;

export const marks = computed(() => {
  const all = new Map([...records.value, ...decisions.value].map((record) => [record.id, record]));
  return [...all.values()].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
});
const looked = () => (isPast.value ? Date.parse(route.value.query.at) / 1000 : present.value);
const toMoment = (seconds) => adjust({ at: seconds >= present.value - 1 ? "" : new Date(seconds * 1000).toISOString() });

/** To the decision before or after the moment that is looked at. */
export function step(direction) {
  const at = looked();
  const moments = marks.value.map((record) => Date.parse(record.at) / 1000);
  const target = direction < 0 ? moments.filter((each) => each < at - 0.5).at(-1) : moments.find((each) => each > at + 0.5);
  if (target !== undefined) toMoment(target);
  else if (direction > 0) adjust({ at: "" });
}

/** From the past to now, at 1, 10 or 60 times the speed; once more is faster, and after that it stands. */
export function play() {
  clearInterval(timer);
  speed.value = isPast.value ? SPEEDS[SPEEDS.indexOf(speed.value) + 1] ?? 0 : 0;
  if (!speed.value) return;
  timer = setInterval(() => {
    if (!isPast.value) return play();
    toMoment(looked() + (speed.value * TICK_MS) / 1000);
  }, TICK_MS);
}

async function refresh() {
  const about = await got("about").catch(() => ({}));
  const [costs, log] = await Promise.allSettled([about.canPlan ? got("costs?by=pool") : Promise.reject(), got("decisions?limit=200")]);
  if (costs.status === "fulfilled") series.value = costs.value.series;
  if (log.status === "fulfilled") records.value = log.value.records;
}

export function Scrubber() {
  useEffect(() => {
    refresh();
    const each = setInterval(() => document.hidden || refresh(), REFRESH_MS);
    return () => clearInterval(each);
  }, []);
  if (!live.value?.isLive) return null;
  const at = series.value?.at ?? [];
  const until = Math.floor(present.value);
  const since = Math.min(at[0] ?? until, until - 60);
  const place = (seconds) => ((seconds - since) / (until - since)) * 1000;
  const most = Math.max(...(series.value?.hourly ?? []), 1e-9);
  const line = at.map((seconds, n) => `${place(seconds).toFixed(1)},${(30 - (series.value.hourly[n] / most) * 26).toFixed(1)}`).join(" ");
  const hasHistory = at.length > 1;
  return html`<footer class="scrubber"><div class="buttons">
      <button onClick=${() => step(-1)} disabled=${!marks.value.length} aria-label="to the decision before">‹</button>
      <button onClick=${play} disabled=${!isPast.value} aria-label=${speed.value ? `playing at ${speed.value} times the speed` : "play"}>${speed.value ? `${speed.value}×` : "▶"}</button>
      <button onClick=${() => step(1)} disabled=${!isPast.value} aria-label="to the decision after">›</button>
      <button class=${isPast.value ? "" : "on"} aria-pressed=${!isPast.value} onClick=${() => adjust({ at: "" })}>live</button></div>
    <div class="track"><svg viewBox="0 0 1000 32" preserveAspectRatio="none" aria-hidden="true">
        <polyline points=${line} class="cost-line" />
        ${marks.value.filter((record) => Date.parse(record.at) / 1000 >= since).map((record) => html`<line key=${record.id}
          x1=${place(Date.parse(record.at) / 1000)} x2=${place(Date.parse(record.at) / 1000)} y1="24" y2="32" class=${`mark ${record.severity}`} />`)}</svg>
      <input type="range" min=${since} max=${until} value=${looked()} disabled=${!hasHistory} aria-label="moment that is looked at"
        aria-valuetext=${isPast.value ? written(looked(), present.value) : "live"} onChange=${(event) => toMoment(Number(event.target.value))} /></div>
    <span class="num soft">${written(looked(), present.value)}</span></footer>`;
}
