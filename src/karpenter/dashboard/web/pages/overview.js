// Totals, what waits, the map or its table, and the last decisions.
import { useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import { COLORS, coloring } from "../draw.js";
import { counted, cpu, dollars, hourly, memory, moment as written, number, percent, spaced, span } from "../format.js";
import { condensed, grouped, GROUPINGS, SIZES } from "../layout.js";
import { ClusterMap, MARK_MS } from "../map.js";
import { adjust, go, route } from "../router.js";
import { found as foundBy, KEYS } from "../search.js";
import { marks } from "../scrubber.js";
import { scheme } from "../settings.js";
import { shareOf, wordsOf } from "../store.js";
import { isPast, model, moment, view } from "../stream.js";
import { Bar, Decisions, Facts, html, Link, Money, nodeTo, PodLink, poolTo, Section, Signs, Table } from "../ui.js";

const LAST = 8;
const TRAY = 3;

function Totals({ totals }) {
  const states = (counts) => Object.entries(counts).map(([name, count]) => `${number(count)} ${spaced(name)}`).join(", ");
  const use = (used, all) => (all ? used / all : 0);
  return html`<div class="totals">
    <div><span class="label">Nodes ready</span><b class="num">${number(totals.ready)}<small> of ${number(totals.nodes)}</small></b>
      <small>${states(totals.nodeStates)}</small></div>
    <div><span class="label">Pods</span><b class="num">${number(totals.pods)}</b><small>${states(totals.podStates)}</small></div>
    <div class=${totals.waiting ? "attention" : ""}><span class="label">Waiting</span>
      <b class="num">${totals.waiting ? html`<${Link} to="#/pending">${number(totals.waiting)}<//>` : "0"}</b>
      <small>${totals.waiting ? "pods without a node" : "every pod has a node"}</small></div>
    <div><span class="label">Cost</span><b class="num">${hourly(totals.hourly, totals.isEstimate)}</b>
      <small>${dollars(totals.monthly, totals.isEstimate)} a month${totals.unpriced ? html`, <span class="attention">and ${counted(totals.unpriced, "node")} of unknown price</span>` : ""}</small></div>
    <div><span class="label">CPU requested</span><b class="num">${percent(use(totals.cpuRequested, totals.cpu))}</b>
      <${Bar} share=${use(totals.cpuRequested, totals.cpu)} label="share of cpu requested" /><small class="num">${cpu(totals.cpuRequested)} of ${cpu(totals.cpu)} cores</small></div>
    <div><span class="label">Memory requested</span><b class="num">${percent(use(totals.memoryRequested, totals.memory))}</b>
      <${Bar} share=${use(totals.memoryRequested, totals.memory)} label="share of memory requested" /><small class="num">${memory(totals.memoryRequested)} of ${memory(totals.memory)}</small></div>
  </div>`;
}

function Tools({ query, found }) {
  const pick = (name, label, options, fallback) => html`<label>${label}
    <select value=${query[name] ?? fallback} onChange=${(event) => adjust({ [name]: event.target.value === fallback ? "" : event.target.value })}>
    ${options.map((option) => html`<option value=${option}>${option}</option>`)}</select></label>`;
  return html`<div class="tools" role="search">
    <input type="search" value=${query.q ?? ""} placeholder="search nodes and pods  ( / )" aria-label="search nodes and pods" list="search-keys"
      spellcheck="false" onInput=${(event) => adjust({ q: event.target.value })} />
    <datalist id="search-keys">${KEYS.map((key) => html`<option value=${`${key}:`} />`)}</datalist>
    ${found && html`<span class="soft num">${counted(found.nodes.size, "node")}, ${counted(found.pods.size, "pod")}</span>`}
    <span class="gap"></span>
    ${pick("by", "group", Object.keys(GROUPINGS), "pool")}${pick("color", "colour", COLORS, "namespace")}${pick("area", "size", SIZES, "cpu")}
    <div class="switch" role="group" aria-label="form">${["map", "table"].map((form) => html`<button
      aria-pressed=${(query.view ?? "map") === form} onClick=${() => adjust({ view: form === "map" ? "" : form })}>${form}</button>`)}</div></div>`;
}

/** The rows of the map as a table, in the same order. */
function Twin({ groups, found }) {
  const rows = groups.flatMap((group) => group.nodes).filter((node) => !found || found.nodes.has(node.id));
  const use = (node, used, all) => html`<${Bar} share=${all ? used / all : 0} label=${percent(all ? used / all : 0)} /> <span class="num">${percent(all ? used / all : 0)}</span>`;
  const columns = [
    { head: "node", cell: (node) => (node.count > 1 ? `${node.count} × ${node.name}` : html`<${Link} to=${nodeTo(node.name)}>${node.name}<//>`), sort: (node) => node.name },
    { head: "state", cell: (node) => html`${node.state} <${Signs} node=${node} now=${moment.value} but=${spaced(node.state)} />`, sort: (node) => node.state },
    { head: "pool", cell: (node) => (node.pool ? html`<${Link} to=${poolTo(node.pool)}>${node.pool}<//>` : html`<span class="soft">not Karpenter's</span>`), sort: (node) => node.pool },
    { head: "type", cell: (node) => node.type || "–", sort: (node) => node.type },
    { head: "zone", cell: (node) => node.zone || "–", sort: (node) => node.zone },
    { head: "cpu", cell: (node) => use(node, node.cpuUsed, node.cpu), sort: (node) => node.cpuUsed / (node.cpu || 1), num: true },
    { head: "memory", cell: (node) => use(node, node.memoryUsed, node.memory), sort: (node) => node.memoryUsed / (node.memory || 1), num: true },
    { head: "pods", cell: (node) => node.pods.length, sort: (node) => node.pods.length, num: true },
    { head: "$/h", cell: (node) => hourly(node.price, node.isEstimate), sort: (node) => node.price ?? -1, num: true },
    { head: "age", cell: (node) => span(moment.value - node.created), sort: (node) => -node.created, num: true },
  ];
  return html`<section><${Table} columns=${columns} rows=${rows} keyOf=${(node) => node.id} caption="Nodes, in the order of the map"
    empty="No node is found." rowProps=${(node) => ({ "data-words": wordsOf(node, moment.value) })} /></section>`;
}

function Panel({ node, onClose }) {
  const pods = [...node.pods].sort((a, b) => shareOf(b, node) - shareOf(a, node));
  return html`<aside class="panel" aria-label=${`Node ${node.name}`}><div class="section-head"><h2>${node.name}</h2>
      <button class="quiet" onClick=${onClose} aria-label="close the panel">✕</button></div>
    <p><${Signs} node=${node} now=${moment.value} /></p>
    <${Facts} items=${[["state", node.state + (node.reason ? `: ${node.reason}` : "")], ["pool", node.pool ? html`<${Link} to=${poolTo(node.pool)}>${node.pool}<//>` : "not Karpenter's"],
      ["type", [node.type, node.capacityType].filter(Boolean).join(", ")], ["zone", node.zone], ["price", html`<${Money} value=${node.price} isEstimate=${node.isEstimate} month />`],
      ["cpu", `${cpu(node.cpuUsed)} of ${cpu(node.cpu)}`], ["memory", `${memory(node.memoryUsed)} of ${memory(node.memory)}`], ["age", span(moment.value - node.created)]]} />
    <p><${Link} class="button" to=${nodeTo(node.name)}>Why is it here?<//>
      ${!isPast.value && html` <${Link} class="button" to=${`#/what-if?drain=${encodeURIComponent(node.name)}`}>Drain it …<//>`}</p>
    <h3>${counted(pods.length, "pod")}</h3><ul class="plain">${pods.slice(0, 30).map((pod) => html`<li key=${pod.id}>
      <${PodLink} pod=${pod} /> <span class="soft num">${percent(shareOf(pod, node))}</span></li>`)}
      ${pods.length > 30 && html`<li class="soft">and ${pods.length - 30} more</li>`}</ul></aside>`;
}

export function Overview() {
  const { query } = route.value;
  const [selected, setSelected] = useState(null);
  const current = model.value;
  const nodes = useMemo(() => condensed(current) ?? current.nodes, [current]);
  const colors = useMemo(() => coloring(current, query.color, scheme.value), [current, query.color, scheme.value]);
  const found = useMemo(() => foundBy(current, query.q ?? ""), [current, query.q]);
  const groups = useMemo(() => grouped(nodes, query.by), [nodes, query.by]);
  const node = selected === null ? null : nodes.find((each) => each.id === selected);
  const last = useMemo(() => {
    const until = moment.value;
    return marks.value.filter((record) => !isPast.value || Date.parse(record.at) / 1000 <= until).slice(-LAST).reverse();
  }, [marks.value, isPast.value, query.at]);
  const waiting = [...current.waiting].sort((a, b) => a.created - b.created);
  const lastNode = useRef(0); // when there was one: the map stays until it has been grey for a while
  if (nodes.length) lastNode.current = Date.now();
  return html`<h1 class="unseen">Cluster</h1><${Totals} totals=${view.value.totals} />
    <${Tools} query=${query} found=${found} />
    ${waiting.length > 0 && html`<div class="tray"><b>Waiting</b>${waiting.slice(0, TRAY).map((pod) => html`<span class="chip" key=${pod.id}>
      <${PodLink} pod=${pod} /> <span class="soft">${pod.target ? `→ ${pod.target.name}` : pod.reason || "no node yet"}, ${span(moment.value - pod.created)}</span></span>`)}
      ${waiting.length > TRAY && html`<${Link} to="#/pending">and ${number(waiting.length - TRAY)} more<//>`}</div>`}
    ${nodes !== current.nodes && html`<p class="note">There are ${counted(current.nodes.length, "node")}: a cell stands for equal nodes, with their number.</p>`}
    ${Date.now() - lastNode.current > MARK_MS ? view.value.notices.length === 0 && html`<p class="note">There are no nodes yet; the first pod that waits makes one.</p>` : query.view === "table" ? html`<${Twin} groups=${groups} found=${found} />`
      : html`<div class="map-area"><${ClusterMap} nodes=${nodes} colors=${colors} found=${found} now=${moment.value} by=${query.by}
        area=${query.area} selected=${selected} covered=${node ? 350 : 0} onSelect=${(each) => setSelected(each?.id ?? null)} onOpen=${(each) => go(nodeTo(each.name))} />
      ${node && html`<${Panel} node=${node} onClose=${() => setSelected(null)} />`}</div>
      <ul class="legend" aria-label="Colours">${colors.legend.map(([name, colour]) => html`<li key=${name}><svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" rx="2" fill=${colour} /></svg>${name}</li>`)}
        <li class="soft">hatched: daemons</li><li class="soft">! not ready</li><li class="soft">▼ draining</li><li class="soft">S spot</li><li class="soft">‖ held</li><li class="soft">◷ empty</li></ul>`}
    <${Section} title="Last decisions" aside=${html`<${Link} to="#/decisions">all<//>`}><${Decisions} records=${last} moment=${(at) => written(at, moment.value)} /><//>`;
}
