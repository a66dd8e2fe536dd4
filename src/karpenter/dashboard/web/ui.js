// What pages are made of: links, figures, tables, answers to questions.
import { h } from "./vendor/preact.js";
import { useEffect, useState } from "./vendor/preact-hooks.js";
import { signal } from "./vendor/signals.js";
import htm from "./vendor/htm.js";
import { got } from "./api.js";
import { csv, counted, dollars, hourly, routeOf } from "./format.js";
import { route } from "./router.js";
import { signsOf } from "./store.js";

export const html = htm.bind(h);

// One polite sentence at a time for those who hear the page, and not more than one in ten seconds
const SAY_MS = 10_000;
export const said = signal("");
let lastSaid = 0;
let sayTimer = 0;

export function say(text, isAnswer = false) {
  clearTimeout(sayTimer);
  const wait = isAnswer ? 0 : Math.max(0, lastSaid + SAY_MS - Date.now());
  sayTimer = setTimeout(() => {
    lastSaid = Date.now();
    said.value = text;
  }, wait);
}

/** A link within the page, which stays at the moment that is looked at. */
export function Link({ to, children, ...rest }) {
  const at = route.value.query.at;
  const [path, query] = to.split("?");
  const parts = new URLSearchParams(query);
  if (at) parts.set("at", at);
  const text = parts.toString();
  return html`<a href=${text ? `${path}?${text}` : path} ...${rest}>${children}</a>`;
}

/** The name of an object such as Node/a, with a link where it has a page. */
export function Ref({ to, short }) {
  const target = routeOf(to);
  const text = short ? to.split("/").slice(1).join("/") : to;
  return target ? html`<${Link} to=${target}>${text}<//>` : html`<span>${text}</span>`;
}

export const nodeTo = (name) => routeOf(`Node/${name}`);
export const podTo = (pod) => (pod.name ? routeOf(`Pod/${pod.namespace}/${pod.name}`) : "");
export const poolTo = (name) => routeOf(`NodePool/${name}`);

export function PodLink({ pod }) {
  if (pod.flags.hidden || !pod.name) return html`<span class="soft">a pod of another namespace</span>`;
  return html`<${Link} to=${podTo(pod)}><span class="soft">${pod.namespace}/</span>${pod.name}<//>`;
}

export function Money({ value, isEstimate, month }) {
  return html`<span class="num">${hourly(value, isEstimate)}</span>${month && value !== null && value !== undefined
    ? html` <span class="soft num">${dollars(value * 730, isEstimate)}/month</span>` : null}`;
}

export function Bar({ share, label }) {
  const whole = Math.max(0, Math.min(1, share || 0));
  return html`<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="bar-back" width="100" height="6" rx="1" />
    <rect class=${share > 0.95 ? "bar-full" : "bar-used"} width=${whole * 100} height="6" rx="1" /></svg>`;
}

export function Copy({ text, label = "copy as command" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(document.getElementById(`copy-${text}`));
      return;
    }
    setDone(true);
    say("Copied", true);
    setTimeout(() => setDone(false), 2000);
  };
  return html`<span class="command"><code id=${`copy-${text}`}>${text}</code>
    <button class="quiet" onClick=${copy}>${done ? "copied" : label}</button></span>`;
}

/** A download of rows as CSV. */
export function Csv({ name, rows }) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([csv(rows())], { type: "text/csv" }));
    const anchor = Object.assign(document.createElement("a"), { href: url, download: `${name}.csv` });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  return html`<button class="quiet" onClick=${save}>CSV</button>`;
}

const FIRST_ROWS = 100;
const AGAIN_SECONDS = 5; // after which a question that had no answer is asked once more

/** A table; columns are {head, cell(row), num?, sort?(row)}. On a narrow screen each row is a card. */
export function Table({ columns, rows, caption, keyOf, empty = "none", onRow, rowProps }) {
  const [order, setOrder] = useState(null);
  const [most, setMost] = useState(FIRST_ROWS);
  let shown = rows;
  if (order) {
    const by = columns[order.at].sort;
    const sign = order.isDown ? -1 : 1;
    shown = [...rows].sort((a, b) => (by(a) < by(b) ? -sign : by(a) > by(b) ? sign : 0));
  }
  const turn = (at) => setOrder(order?.at === at ? { at, isDown: !order.isDown } : { at, isDown: Boolean(columns[at].num) });
  if (!rows.length) return html`<p class="soft">${empty}</p>`;
  return html`<div class="table-frame"><table>
    ${caption && html`<caption class="unseen">${caption}</caption>`}
    <thead><tr>${columns.map((column, at) => html`<th scope="col" class=${column.num ? "right" : ""}
      aria-sort=${order?.at === at ? (order.isDown ? "descending" : "ascending") : undefined}>
      ${column.sort ? html`<button class="head" onClick=${() => turn(at)}>${column.head}<span aria-hidden="true">
        ${order?.at === at ? (order.isDown ? "▾" : "▴") : ""}</span></button>` : column.head}</th>`)}</tr></thead>
    <tbody>${shown.slice(0, most).map((row, at) => html`<tr key=${keyOf ? keyOf(row) : at}
      onClick=${onRow ? () => onRow(row) : undefined} ...${rowProps?.(row)}>
      ${columns.map((column) => html`<td class=${column.num ? "right num" : ""} data-head=${column.head}><div>${column.cell(row)}</div></td>`)}
    </tr>`)}</tbody></table>
    ${shown.length > most && html`<button onClick=${() => setMost(most + 500)}>
      show ${counted(Math.min(500, shown.length - most), "more row")} of ${shown.length}</button>`}</div>`;
}

/** The answer to a question, asked anew when `path` or `turn` changes: {data, error, isAsking}. */
export function useAnswer(path, turn = "") {
  const [answer, setAnswer] = useState({ isAsking: true });
  useEffect(() => {
    if (!path) return setAnswer({});
    const abort = new AbortController();
    let again = 0;
    const ask = () => got(path, abort.signal).then((data) => setAnswer({ data, path }), (error) => {
      if (abort.signal.aborted) return;
      setAnswer({ error, path });
      // Others were first, or what is needed is not there yet
      if ([429, 503].includes(error.status)) again = setTimeout(ask, (error.retryAfter ?? AGAIN_SECONDS) * 1000);
    });
    setAnswer((before) => (before.path === path ? { ...before, isAsking: true } : { isAsking: true, path }));
    ask();
    return () => { clearTimeout(again); abort.abort(); };
  }, [path, turn]);
  return answer;
}

/** What an answer lacks: that it is being made, why there is none, or what was not looked at. */
export function Answer({ answer, children, what = "the answer" }) {
  if (answer.data) {
    return html`${answer.data.isPartial && html`<p class="note warning">This is a part of ${what}: time ran out before all
      was looked at.</p>`}${children(answer.data)}`;
  }
  if (answer.error) {
    const { status, message } = answer.error;
    const text = status === 404 && /status 404/.test(message) ? `This server does not give ${what} yet.`
      : status === undefined ? `${sentence(what)} cannot be had while the dashboard is not reached.` : message;
    return html`<p class="note">${sentence(text)}</p>`;
  }
  return html`<p class="soft" role="status">${answer.isAsking ? `working out ${what} …` : ""}</p>`;
}

export const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");

/** What colour alone must not tell of a node, as glyphs with their words. */
export function Signs({ node, now, but = "" }) {
  return signsOf(node, now).map(({ glyph, words, key }) => html`<span class="sign ${key}"><span aria-hidden="true">${glyph} </span>${words === but ? "" : words}</span>`);
}

/** Checks in their order, each with a mark that is read out too. */
export function Checks({ items }) {
  return html`<ul class="checks">${items.map((item) => html`<li class=${item.passed ? "yes" : "no"}>
    <span class="mark" aria-hidden="true">${item.passed ? "✓" : "✗"}</span><span class="unseen">${item.passed ? "passed: " : "failed: "}</span>
    <span><b>${item.name}</b>${item.detail ? `: ${item.detail}` : ""}${item.inner}</span></li>`)}</ul>`;
}

export function Facts({ items }) {
  return html`<dl class="facts">${items.filter(Boolean).map(([name, value]) =>
    html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Section({ title, children, aside }) {
  return html`<section><div class="section-head"><h2>${title}</h2>${aside}</div>${children}</section>`;
}

/** Records of decisions, as sentences. */
export function Decisions({ records, moment, empty = "No decision was recorded." }) {
  if (!records.length) return html`<p class="soft">${empty}</p>`;
  return html`<ol class="decisions">${records.map((record) => html`<li key=${record.id} class=${record.outcome}>
    <${Link} class="num soft" to=${`#/decisions?id=${encodeURIComponent(record.id)}`} title=${record.at}>${moment(record.at)}<//>
    <span class="tag ${record.severity}">${record.kind}</span>
    <span>${record.text}
      ${record.outcome !== "done" && record.outcome !== "begun" ? html` <b>${record.outcome}</b>` : null}</span></li>`)}</ol>`;
}
