// The log of decisions, the newest first.
import { useEffect, useMemo, useState } from "../vendor/preact-hooks.js";
import { got } from "../api.js";
import { hourly, moment as written } from "../format.js";
import { adjust, route } from "../router.js";
import { decisions, isPast, moment, view } from "../stream.js";
import { html, Ref, sentence } from "../ui.js";

const KINDS = ["Provision", "Launch", "Register", "Initialize", "Disrupt", "Drain", "Terminate", "Interrupt", "Repair", "Refuse", "Limit", "Config"];
const PAGE = 50;
const MARKS = { failed: "bad", abandoned: "warning", done: "good" };

function fits(record, { kind, reason, pool, text }) {
  const all = [record.text, ...record.objects].join(" ").toLowerCase();
  return (!kind || record.kind === kind) && (!reason || record.reason === reason) && (!pool || record.nodePools.includes(pool)) && all.includes((text ?? "").toLowerCase());
}

export function DecisionsPage() {
  const { query } = route.value;
  const [older, setOlder] = useState({ records: [], before: null, error: "" });
  const asked = useMemo(() => new URLSearchParams(Object.entries({ kind: query.kind, nodePool: query.pool, text: query.text }).filter(([, value]) => value)), [query.kind, query.pool, query.text]);
  const more = async (before, known) => {
    try {
      const page = await got(`decisions?limit=${PAGE}${before ? `&before=${encodeURIComponent(before)}` : ""}&${asked}`);
      setOlder({ records: [...known, ...page.records], before: page.before, error: "" });
    } catch (error) {
      setOlder({ records: known, before: null, error: error.status === 404 ? "This server does not give older decisions yet." : error.message });
    }
  };
  useEffect(() => {
    const timer = setTimeout(() => more("", []), 200);
    return () => clearTimeout(timer);
  }, [asked]);
  const until = isPast.value ? moment.value : Infinity;
  const every = new Map([...decisions.value, ...older.records].map((record) => [record.id, record]));
  const records = [...every.values()].filter((record) => fits(record, query) && Date.parse(record.at) / 1000 <= until).sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  const reasons = [...new Set([...every.values()].map((record) => record.reason))].sort();
  const pick = (name, label, options) => html`<label>${label} <select value=${query[name] ?? ""} onChange=${(event) => adjust({ [name]: event.target.value })}>
    <option value="">all</option>${options.map((option) => html`<option value=${option}>${option}</option>`)}</select></label>`;
  return html`<h1>Decisions</h1><div class="tools"><input type="search" value=${query.text ?? ""} placeholder="sentence or object  ( / )" aria-label="filter decisions by text" onInput=${(event) => adjust({ text: event.target.value })} />
      ${pick("kind", "kind", KINDS)}${pick("reason", "reason", reasons)}${pick("pool", "pool", view.value.pools.map((pool) => pool.name))}</div>
    ${older.error && html`<p class="note">${sentence(older.error)}</p>`}
    <section>${records.length ? html`<ol class="decisions">${records.map((record) => html`<li key=${record.id} class=${record.id === query.id ? "chosen" : ""}>
      <a class="num" href=${`#/decisions?id=${encodeURIComponent(record.id)}`} title=${record.at}>${written(record.at, moment.value)}</a><span class="tag ${record.severity}">${record.kind}</span>
      <div>${record.text} <span class="tag ${MARKS[record.outcome] ?? ""}">${record.outcome}</span>
        <div class="soft">${record.reason}${record.savingsHourly !== null ? ` · saves ${hourly(record.savingsHourly, record.isEstimate)}` : ""}${record.objects.length ? " · " : ""}${record.objects.map((each, at) => html`${at ? ", " : ""}<${Ref} to=${each} />`)}
          ${record.command && record.objects.length ? html` · <a href=${`#/decisions?text=${encodeURIComponent(record.objects[0])}`}>all about it</a>` : ""}</div>
        ${record.id === query.id && html`<details open><summary>detail</summary><pre>${JSON.stringify(record.detail, null, 1)}</pre></details>`}</div></li>`)}</ol>`
      : html`<p class="soft">No decision was recorded that fits.</p>`}
    ${older.before && html`<p><button onClick=${() => more(older.before, older.records)}>older</button></p>`}</section>`;
}
