// One NodePool: what it can buy at what price, its limits, and how much disruption is left.
import { Chart } from "../chart.js";
import { counted, cpu, dollars, hourly, memory, number, percent, upcoming } from "../format.js";
import { isPast, model, view } from "../stream.js";
import { Answer, Bar, Copy, Facts, html, Link, Money, nodeTo, poolTo, Section, Table, useAnswer } from "../ui.js";

const amount = (resource, value) => (resource === "cpu" ? cpu(value) : resource === "memory" ? memory(value) : number(value));
const price = (row) => (row.cheapest?.price === undefined ? null : row.cheapest.price);
const capacity = (text) => (/m$/.test(text) ? parseFloat(text) / 1000 : parseFloat(text));

export function Pools() {
  return html`<h1>Pools</h1><section><${Table} caption="NodePools" rows=${view.value.pools} keyOf=${(pool) => pool.name} empty="There is no NodePool, so no node can be made." columns=${[
    { head: "pool", cell: (pool) => html`<${Link} to=${poolTo(pool.name)}>${pool.name}<//>`, sort: (pool) => pool.name },
    { head: "state", cell: (pool) => (pool.isReady ? "ready" : html`<span class="sign bad">! not ready</span> ${pool.reason}`), sort: (pool) => pool.isReady },
    { head: "nodes", num: true, cell: (pool) => number(pool.nodes), sort: (pool) => pool.nodes }, { head: "weight", num: true, cell: (pool) => pool.weight, sort: (pool) => pool.weight },
    { head: "cpu", num: true, cell: (pool) => `${cpu(pool.use.cpu ?? 0)}${pool.limits.cpu ? ` of ${cpu(pool.limits.cpu)}` : ""}`, sort: (pool) => pool.use.cpu ?? 0 },
    { head: "cost", num: true, cell: (pool) => html`<${Money} value=${pool.hourly} isEstimate=${pool.isEstimate} />${pool.unpriced ? html` <span class="attention">+ ${pool.unpriced} unpriced</span>` : ""}`, sort: (pool) => pool.hourly },
    { head: "consolidation", cell: (pool) => `${pool.consolidationPolicy}, ${pool.consolidateAfter}` }]} /></section>`;
}

function Budget({ budget, now }) {
  const about = `${budget.nodes} for ${budget.reasons?.join(", ") ?? "every reason"}`;
  const when = budget.problem ? budget.problem : !budget.schedule ? "always" : budget.active
    ? `in force, closes ${upcoming(budget.closes, now)}` : `opens ${upcoming(budget.opens, now)}`;
  return html`<li><span>${about}${budget.allowed !== undefined && budget.allowed !== null ? html` <span class="soft">(${counted(budget.allowed, "node")})</span>` : ""}</span>
    <span>${when}${budget.schedule ? html` <span class="soft">${budget.schedule} for ${budget.duration}</span>` : ""}</span></li>`;
}

function Told({ answer }) {
  const { instanceTypes, prices, disruption } = answer;
  const sizes = prices.filter((row) => price(row) !== null);
  const lines = [...new Set(sizes.map((row) => row.cheapest.capacityType))].map((kind) => ({
    name: kind, write: (value) => dollars(value, sizes.some((row) => row.cheapest.isEstimate), 4), values: sizes.map((row) => (row.cheapest.capacityType === kind ? price(row) / capacity(row.cpu) : null)) }));
  return html`${!answer.usable && html`<p class="note warning">It cannot make nodes: ${answer.detail || answer.reason}.</p>`}
    <div class="columns"><${Section} title=${`Instance types: ${instanceTypes.possible} in, ${number(instanceTypes.excluded.reduce((sum, group) => sum + group.instanceTypes.length, 0))} out`}>
      <${Table} caption="Instance types that are out" empty="None is out." rows=${instanceTypes.excluded} columns=${[
        { head: "out", num: true, cell: (group) => group.instanceTypes.length }, { head: "because", cell: (group) => html`${group.detail}<details><summary class="soft">${group.reason}</summary>${group.instanceTypes.join(", ")}</details>` }]} /><//>
    <${Section} title="Disruption"><p>${disruption.consolidationPolicy}, ${disruption.consolidateAfter} after pods last came or went.
      Left now: ${Object.entries(disruption.remaining).map(([reason, left]) => `${left} for ${reason}`).join(", ")}.</p><ul class="plain">${disruption.budgets.map((budget) => html`<${Budget} budget=${budget} now=${Date.parse(answer.asOf) / 1000} />`)}</ul><//></div>
    <${Section} title="The cheapest of each size">${sizes.length > 1 && html`<${Chart} label=${`price per cpu of ${sizes.length} sizes of machines; the table has the numbers`} isTime=${false} at=${sizes.map((row) => capacity(row.cpu))} lines=${lines} writeAt=${(value) => `${value} cpu`} height=${170} />`}
      <${Table} caption="The cheapest of each size" rows=${prices} empty="It can buy nothing." columns=${[
        { head: "cpu", num: true, cell: (row) => row.cpu, sort: (row) => capacity(row.cpu) }, { head: "memory", num: true, cell: (row) => row.memory },
        { head: "type", cell: (row) => row.cheapest?.instanceType ?? "–" }, { head: "zone", cell: (row) => row.cheapest?.zone ?? "–" }, { head: "capacity", cell: (row) => row.cheapest?.capacityType ?? "–" },
        { head: "$/h", num: true, cell: (row) => hourly(price(row), row.cheapest?.isEstimate), sort: price }, { head: "$/cpu", num: true, cell: (row) => (price(row) === null ? "–" : dollars(price(row) / capacity(row.cpu), row.cheapest.isEstimate, 4)), sort: (row) => price(row) / capacity(row.cpu) },
        { head: "types", num: true, cell: (row) => row.instanceTypes }]} /><//>`;
}

export function PoolPage({ name }) {
  const pool = view.value.pools.find((each) => each.name === name);
  const answer = useAnswer(isPast.value || !pool ? "" : `explain/nodepool/${encodeURIComponent(name)}`, pool?.nodes);
  if (!pool) return html`<h1>${name}</h1><p class="note">There is no such pool; <${Link} to="#/pools">these<//> there are.</p>`;
  const nodes = model.value.nodes.filter((node) => node.pool === name);
  const drifted = nodes.filter((node) => node.flags.drifted);
  return html`<h1>${name}</h1>${!pool.isReady && html`<p><span class="sign bad">! not ready</span> ${pool.reason}</p>`}
    <${Facts} items=${[["nodes", html`<${Link} to=${`#/?q=${encodeURIComponent(`pool:${name}`)}`}>${pool.nodes}<//>`], ["cost", html`<${Money} value=${pool.hourly} isEstimate=${pool.isEstimate} month />${pool.unpriced ? html` <span class="attention">and ${counted(pool.unpriced, "node")} of unknown price</span>` : ""}`],
      ["node class", pool.nodeClass], ["weight", pool.weight], pool.replicas !== null && ["replicas", pool.replicas], ["consolidation", `${pool.consolidationPolicy}, ${pool.consolidateAfter}`]]} />
    <p><${Copy} text=${`karpenter explain nodepool ${name}`} /> ${!isPast.value && html`<${Link} class="button" to=${`#/what-if?pool=${encodeURIComponent(name)}`}>Change it …<//>`}</p>
    <div class="columns"><${Section} title="Limits">${Object.keys(pool.limits).length ? Object.entries(pool.limits).map(([resource, limit]) => html`<div><b>${resource}</b>
        <span class="num soft"> ${amount(resource, pool.use[resource] ?? 0)} of ${amount(resource, limit)} (${percent((pool.use[resource] ?? 0) / limit)})</span><${Bar} share=${(pool.use[resource] ?? 0) / limit} label=${`${resource} used`} /></div>`) : html`<p class="soft">It has no limits.</p>`}<//>
      <${Section} title=${counted(drifted.length, "drifted node")}>${drifted.length ? html`<p>${drifted.slice(0, 40).map((node) => html`<${Link} to=${nodeTo(node.name)}>${node.name}<//> `)}</p>` : html`<p class="soft">Every node is as the pool says now.</p>`}<//></div>
    ${isPast.value ? html`<section><p class="soft">Prices and budgets are told of the present.</p></section>` : html`<${Answer} answer=${answer} what="what the pool can buy">${(data) => html`<${Told} answer=${data} />`}<//>`}`;
}
