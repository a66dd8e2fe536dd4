// The frame around every page: navigation, notices, states of the connection, keys and help.
import { render } from "./vendor/preact.js";
import { useEffect, useRef } from "./vendor/preact-hooks.js";
import "./vendor/signals.js";
import { isRefused, keep } from "./api.js";
import { moment as written, span } from "./format.js";
import { adjust, go, route } from "./router.js";
import { Scrubber, play, step } from "./scrubber.js";
import { choose, scheme, settings } from "./settings.js";
import { follow, heard, isOutdated, isPast, link, live, now, present, retry, view, viewError } from "./stream.js";
import { COLORS } from "./draw.js";
import { GROUPINGS } from "./layout.js";
import { Copy, html, Link, said, sentence } from "./ui.js";
import { About } from "./pages/about.js";
import { CostPage } from "./pages/cost.js";
import { DecisionsPage } from "./pages/decisions.js";
import { NodePage } from "./pages/node.js";
import { Overview } from "./pages/overview.js";
import { Pending } from "./pages/pending.js";
import { PodPage } from "./pages/pod.js";
import { PoolPage, Pools } from "./pages/pool.js";
import { WhatIf } from "./pages/whatif.js";

const STALE_SECONDS = 30; // after which data fades
const SEQUENCE_MS = 1500; // within which g and a second key belong together
const PAGES = [
  ["#/", "Map", "m"], ["#/pending", "Pending", "p"], ["#/pools", "Pools", "o"], ["#/cost", "Cost", "c"],
  ["#/decisions", "Decisions", "d"], ["#/what-if", "What-if", "w"], ["#/about", "About", "a"],
];
const KEYS = [
  ["/", "search"], ["g then m p o d c w a", "map, pending, pools, decisions, cost, what-if, about"],
  ["t", "map or table"], ["1 – 4", "group by pool, zone, type, capacity type"], ["c", "colour"],
  ["arrows", "in the map: from node to node; with Shift the map moves"], ["Enter", "open the panel, then the page, of a node"],
  ["+ − 0", "in the map: zoom in, out, show all; so does the wheel once the map has the focus, or with Ctrl"],
  ["[ ]", "to the decision before, or after"], ["Space", "play from the moment that is looked at"], ["L", "live"],
  ["Esc", "close, or leave a field"], ["?", "this help"],
];

function page({ parts }) {
  const [first, ...rest] = parts;
  if (!first) return ["Map", html`<${Overview} />`];
  if (first === "nodes" && rest.length === 1) return [rest[0], html`<${NodePage} key=${rest[0]} name=${rest[0]} />`];
  if (first === "pods" && rest.length === 2) return [rest.join("/"), html`<${PodPage} key=${rest.join("/")} namespace=${rest[0]} name=${rest[1]} />`];
  if (first === "pools" && rest.length === 1) return [rest[0], html`<${PoolPage} key=${rest[0]} name=${rest[0]} />`];
  const simple = { pending: ["Pending", Pending], pools: ["Pools", Pools], cost: ["Cost", CostPage], decisions: ["Decisions", DecisionsPage], "what-if": ["What-if", WhatIf], about: ["About", About] };
  const [title, Page] = simple[first] ?? [];
  if (Page && !rest.length) return [title, html`<${Page} />`];
  return ["No such page", html`<h1>No such page</h1><p>The address names no page; <${Link} to="#/">the map<//> shows the cluster.</p>`];
}

function Status() {
  const { state, until } = link.value;
  const age = Math.max(0, now.value - heard.value.since);
  if (isPast.value) return html`<span class="status past">as of ${view.value ? written(view.value.at, present.value) : "…"}</span>`;
  if (state === "lost") return html`<span class="status lost">not connected, next try in ${span(Math.max(0, until - now.value))}</span>`;
  if (live.value && !live.value.isLive) return html`<span class="status">stands still</span>`;
  if (state !== "open") return html`<span class="status">connecting …</span>`;
  if (age > STALE_SECONDS) return html`<span class="status lost">as of ${written(heard.value.at, heard.value.at)}, ${span(age)} ago</span>`;
  return html`<span class="status live"><span aria-hidden="true">●</span> live</span>`;
}

function Banners() {
  const { state, why } = link.value;
  const notices = view.value?.notices ?? [];
  return html`<div class="banners">
    ${state === "lost" && html`<div class="banner warning" role="alert">The dashboard is not reached${why ? ` (${why})` : ""}; what is
      shown is from ${heard.value.at ? written(heard.value.at, heard.value.at) : "before"}. <button onClick=${retry}>try now</button></div>`}
    ${isOutdated.value && html`<div class="banner">The dashboard has been updated. <button onClick=${() => location.reload()}>reload</button></div>`}
    ${isPast.value && html`<div class="banner past">${viewError.value || `This is the cluster as of ${view.value ? written(view.value.at, present.value) : "…"} UTC;
      reasons are those recorded then, and what-if is off.`} <button onClick=${() => adjust({ at: "" })}>back to live</button></div>`}
    ${notices.map((notice) => html`<div key=${notice.kind + notice.text} class="banner ${notice.severity}">
      ${notice.severity === "warning" ? html`<b aria-hidden="true">! </b>` : null}${sentence(notice.text)}
      ${notice.since ? ` (since ${written(notice.since, present.value)})` : ""} ${notice.command && html`<${Copy} text=${notice.command} />`}</div>`)}
  </div>`;
}

function Token() {
  const send = (event) => {
    event.preventDefault();
    const text = event.target.elements.token.value.trim();
    keep(/token=([^&\s]+)/.exec(text)?.[1] ?? text);
  };
  return html`<main id="main" class="narrow"><h1>A token is needed</h1>
    <p>The dashboard printed its address when it started, with the token after <code>#token=</code>. Open that address, or paste it here.</p>
    <form onSubmit=${send}><label for="token">Address or token</label>
      <input id="token" name="token" autocomplete="off" spellcheck="false" required /><button class="primary">Continue</button></form></main>`;
}

function Help() {
  return html`<dialog id="help" aria-labelledby="help-title"><h2 id="help-title">Keys</h2>
    <dl class="keys">${KEYS.map(([keys, what]) => html`<div><dt>${keys}</dt><dd>${what}</dd></div>`)}</dl>
    <p>Search: words, and <code>pool: zone: type: node: ns: owner: pod: state:</code> with a part of a name;
      <code> is:spot</code>, <code>is:blocked</code>, <code>is:empty</code>, <code>is:draining</code>, <code>is:pending</code>.</p>
    <label class="check"><input type="checkbox" checked=${settings.value.hasKeys} onChange=${(event) => choose({ hasKeys: event.target.checked })} /> single keys do something</label>
    <form method="dialog"><button>close</button></form></dialog>`;
}

const help = () => document.getElementById("help").showModal();
let firstKey = 0;

function pressed(event) {
  const inField = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && inField) return inField.blur();
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || inField) return;
  if (!settings.value.hasKeys || document.querySelector("dialog[open]")) return;
  const turn = (list, current) => list[(list.indexOf(current) + 1) % list.length];
  const { query, parts } = route.value;
  if (Date.now() - firstKey < SEQUENCE_MS) {
    firstKey = 0;
    const target = PAGES.find(([, , key]) => key === event.key);
    if (target) return go(target[0]);
  }
  const keys = {
    g: () => { firstKey = Date.now(); },
    "/": () => document.querySelector("input[type=search]")?.focus(),
    "?": help,
    t: () => parts.length || adjust({ view: query.view === "table" ? "" : "table" }),
    c: () => parts.length || adjust({ color: turn(COLORS, query.color ?? COLORS[0]) }),
    "[": () => step(-1), "]": () => step(1), L: () => adjust({ at: "" }), l: () => adjust({ at: "" }),
    " ": () => event.target === document.body && (play(), true),
  };
  const grouping = Object.keys(GROUPINGS)[Number(event.key) - 1];
  if (grouping && !parts.length) adjust({ by: grouping });
  else if (keys[event.key] && (event.key !== " " || event.target === document.body)) keys[event.key]();
  else return;
  event.preventDefault();
}

function App() {
  const main = useRef(null);
  const [title, content] = page(route.value);
  const path = `/${route.value.parts.join("/")}`;
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · Karpenter`;
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
    scrollTo(0, 0);
  }, [path]);
  const isOn = (target) => (target === "#/" ? path === "/" || path.startsWith("/nodes") || path.startsWith("/pods") : path.startsWith(target.slice(1)));
  const themes = { auto: "light", light: "dark", dark: "auto" };
  const isStale = !isPast.value && live.value?.isLive && now.value - heard.value.since > STALE_SECONDS;
  const { source, provider, cluster } = view.value ?? {};
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current?.focus(); }}>to the content</a>
    <header class="top"><${Link} to="#/" class="brand">Karpenter<//>
      <nav aria-label="Pages">${PAGES.map(([target, name]) => html`<${Link} to=${target} aria-current=${isOn(target) ? "page" : undefined}>${name}<//>`)}</nav>
      <span class="where soft">${[source, cluster, provider].filter(Boolean).join(" · ")}</span><${Status} />
      <button class="quiet" onClick=${() => choose({ theme: themes[settings.value.theme] })} aria-label=${`colours: ${settings.value.theme}`}>
        ${scheme.value === "dark" ? "☾" : "☀"} ${settings.value.theme}</button>
      <button class="quiet" onClick=${help} aria-label="keys and search">?</button></header>
    ${isRefused.value ? html`<${Token} />` : html`<${Banners} />
      <main id="main" ref=${main} tabindex="-1" class=${isStale ? "stale" : ""}>
        ${view.value ? content : html`<p class="soft" role="status">${viewError.value || "fetching the view …"}</p>`}</main>
      ${view.value && html`<${Scrubber} />`}`}
    <div class="unseen" role="status" aria-live="polite">${said.value}</div><${Help} />`;
}

addEventListener("keydown", pressed);
render(html`<${App} />`, document.getElementById("app"));
follow();
