// What the cluster costs, to whom, what could be saved, and what keeps it from being saved.
import { Chart } from "../chart.js";
import { counted, dollars, hourly, monthly, moment as written, number, percent } from "../format.js";
import { adjust, route } from "../router.js";
import { isPast, moment } from "../stream.js";
import { Answer, Csv, Facts, html, Link, Money, nodeTo, poolTo, Section, Table, useAnswer } from "../ui.js";

const SPANS = { hour: 3600, "6 hours": 6 * 3600, day: 86400, all: 0 };
const TABLES = { pool: "By pool", capacityType: "By capacity type", namespace: "By namespace", owner: "By owner" };

function CostTable({ table, total, isEstimate }) {
  const extra = [["daemons", table.daemons], ["idle", table.idle]].filter(([, value]) => value > 0)
    .map(([name, value]) => ({ name, hourly: value, monthly: value * 730, share: total ? value / total : 0, isEstimate, isExtra: true }));
  const rows = [...table.rows, ...extra];
  const isKnown = (row) => row.hourly > 0 || !row.unpriced;
  const link = (row) => (row.isExtra ? html`<span class="soft">${row.name}</span>` : table.by === "pool" && row.name ? html`<${Link} to=${poolTo(row.name)}>${row.name}<//>`
    : table.by === "namespace" ? html`<${Link} to=${`#/?q=${encodeURIComponent(`ns:${row.name}`)}`}>${row.name}<//>` : table.by === "pool" ? html`<span class="soft">not Karpenter's</span>` : row.name || (table.by === "capacityType" ? "not known" : "none"));
  const dump = () => [["name", "hourly", "monthly", "share", "isEstimate", "unpriced"], ...rows.map((row) => [row.name, (row.isEstimate ? "~" : "") + row.hourly, (row.isEstimate ? "~" : "") + row.monthly, row.share, row.isEstimate, row.unpriced ?? 0])];
  return html`<${Section} title=${TABLES[table.by] ?? table.by} aside=${html`<${Csv} name=${`cost-by-${table.by}`} rows=${dump} />`}>
    <${Table} caption=${TABLES[table.by]} rows=${rows} keyOf=${(row) => row.name} columns=${[
      { head: "name", cell: link, sort: (row) => row.name }, { head: "$/h", num: true, cell: (row) => hourly(isKnown(row) ? row.hourly : null, row.isEstimate), sort: (row) => row.hourly },
      { head: "$/month", num: true, cell: (row) => dollars(isKnown(row) ? row.monthly : null, row.isEstimate), sort: (row) => row.monthly }, { head: "share", num: true, cell: (row) => percent(row.share, 1), sort: (row) => row.share },
      { head: "of", num: true, cell: (row) => [row.nodes !== undefined && row.nodes !== null && counted(row.nodes, "node"), row.pods !== undefined && row.pods !== null && counted(row.pods, "pod"), row.unpriced > 0 && `${row.unpriced} unpriced`].filter(Boolean).join(", ") }]} /><//>`;
}

function Savings({ savings, realised }) {
  const blocked = savings?.blocked ?? [];
  return html`<${Section} title="Savings"><${Facts} items=${[["planned", savings ? html`<${Money} value=${savings.planned} isEstimate=${savings.isEstimate} month /> <span class="soft">by ${counted(savings.commands, "command")}</span>` : "no plan was made yet"],
      savings && ["blocked, up to", html`<${Money} value=${blocked.reduce((sum, each) => sum + each.hourly, 0)} isEstimate=${blocked.some((each) => each.isEstimate)} month />`],
      realised && ["realised", html`<b>${dollars(realised.dollars, realised.isEstimate)}</b> <span class="soft">since ${written(realised.since, moment.value)}, by ${counted(realised.commands, "command")}, now ${hourly(realised.hourly, realised.isEstimate)}</span>`]]} />
    ${blocked.map((each) => html`<details key=${each.reason}><summary><b>${each.reason}</b> <span class="num">up to ${hourly(each.hourly, each.isEstimate)}, ${monthly(each.hourly, each.isEstimate)}</span> <span class="soft">${counted(each.nodes.length, "node")}</span></summary>
      <ul class="plain">${each.nodes.map((node) => html`<li><${Link} to=${nodeTo(node.node)}>${node.node}<//><span>${node.detail}</span><span class="num">${hourly(node.hourly, node.isEstimate)}</span></li>`)}</ul></details>`)}<//>`;
}

export function CostPage() {
  const { query } = route.value;
  const chosen = SPANS[query.span] === undefined ? "6 hours" : query.span;
  const until = moment.value - (moment.value % 60);
  const from = SPANS[chosen] ? `&from=${new Date((until - SPANS[chosen]) * 1000).toISOString()}` : "";
  const answer = useAnswer(`costs?by=pool,capacityType,namespace,owner${from}${isPast.value ? `&to=${new Date(until * 1000).toISOString()}` : ""}`);
  return html`<h1>Cost</h1><div class="tools"><div class="switch" role="group" aria-label="span of time">${Object.keys(SPANS).map((name) => html`<button aria-pressed=${name === chosen} onClick=${() => adjust({ span: name })}>${name}</button>`)}</div></div>
    <${Answer} answer=${answer} what="what it costs">${(data) => html`
      <${Facts} items=${[["now", html`<b><${Money} value=${data.hourly} isEstimate=${data.isEstimate} month /></b>${data.unpriced ? html` <span class="attention">and ${counted(data.unpriced, "node")} of unknown price</span>` : ""}`],
        data.bound !== null && ["no nodes for these pods cost less than", html`<${Money} value=${data.bound} isEstimate=${data.isEstimate} />`], data.gap !== null && ["gap to that bound", percent(data.gap, 1)]]} />
      <${Section} title="Over time" aside=${html`<${Csv} name="cost-over-time" rows=${() => [["at", "hourly", "nodes", "pods", "unpriced", "isEstimate"], ...data.series.at.map((at, n) => [new Date(at * 1000).toISOString(), (data.isEstimate ? "~" : "") + data.series.hourly[n], data.series.nodes[n], data.series.pods[n], data.series.unpriced[n], data.isEstimate])]} />`}>
        ${data.series.at.length > 1 ? html`<${Chart} label="cost per hour over time; the CSV has the numbers" at=${data.series.at} lines=${[{ name: "$/h", values: data.series.hourly, write: (value) => dollars(value, data.isEstimate) }]} />` : html`<p class="soft">There is no history yet; a point comes every 30 s.</p>`}<//>
      <${Savings} savings=${data.savings} realised=${data.realised} /><div class="columns">${data.tables.map((table) => html`<${CostTable} key=${table.by} table=${table} total=${data.hourly} isEstimate=${data.isEstimate} />`)}</div>`}<//>`;
}
