// What waits, by owner and first reason, and what holds nodes that would otherwise go.
import { useState } from "../vendor/preact-hooks.js";
import { counted, cpu, hourly, memory, number, span } from "../format.js";
import { isPast, model, moment } from "../stream.js";
import { Answer, html, Link, nodeTo, PodLink, Section, Table, useAnswer } from "../ui.js";
import { WhyTree } from "./pod.js";

function groupsOf(pods) {
  const groups = new Map();
  for (const pod of pods) {
    const key = [pod.namespace, pod.owner || pod.name, pod.target ? "a node is on its way" : pod.reason || pod.state].join("\n");
    if (!groups.has(key)) groups.set(key, { key, namespace: pod.namespace, owner: pod.owner || pod.name || "hidden", reason: key.split("\n")[2], pods: [] });
    groups.get(key).pods.push(pod);
  }
  return [...groups.values()].map((group) => ({ ...group, since: Math.min(...group.pods.map((pod) => pod.created)) })).sort((a, b) => a.since - b.since);
}

function Group({ group }) {
  const pod = group.pods.find((each) => each.name) ?? null;
  const answer = useAnswer(pod && !isPast.value ? `explain/pod/${encodeURIComponent(pod.namespace)}/${encodeURIComponent(pod.name)}` : "");
  return html`<${Section} title=${`${group.owner}: ${counted(group.pods.length, "pod")}`}>
    <p>${group.pods.slice(0, 8).map((each) => html`<span class="chip" key=${each.id}><${PodLink} pod=${each} /></span> `)}${group.pods.length > 8 ? `and ${number(group.pods.length - 8)} more` : ""}</p>
    ${pod && !isPast.value && html`<${Answer} answer=${answer} what="why they wait">${(data) => html`<${WhyTree} answer=${data} />`}<//>`}<//>`;
}

function Holding() {
  const answer = useAnswer(isPast.value ? "" : "costs?by=pool");
  if (isPast.value) return null;
  return html`<${Section} title="What holds nodes that could go"><${Answer} answer=${answer} what="what holds nodes">${({ savings }) => {
    if (!savings) return html`<p class="soft">No plan was made yet.</p>`;
    const rows = savings.blocked.flatMap((each) => each.nodes.map((node) => ({ ...node, reason: each.reason })));
    return html`<${Table} caption="Nodes that are held" empty="Nothing holds a node that a move would save." rows=${rows} columns=${[
      { head: "node", cell: (row) => html`<${Link} to=${nodeTo(row.node)}>${row.node}<//>`, sort: (row) => row.node },
      { head: "held by", cell: (row) => row.reason, sort: (row) => row.reason }, { head: "why", cell: (row) => row.detail },
      { head: "a day, up to", num: true, cell: (row) => `$${number(row.hourly * 24, 2)}`, sort: (row) => row.hourly }]} />`;
  }}<//><//>`;
}

export function Pending() {
  const [chosen, setChosen] = useState(null);
  const [text, setText] = useState("");
  const { pods } = model.value;
  const waiting = pods.filter((pod) => !pod.node && ["Waiting", "Gated"].includes(pod.state));
  const groups = groupsOf(waiting).filter((group) => `${group.namespace}/${group.owner} ${group.reason}`.toLowerCase().includes(text.toLowerCase()));
  const open = groups.find((group) => group.key === chosen);
  const columns = [
    { head: "owner", cell: (group) => html`<span class="soft">${group.namespace}/</span>${group.owner}`, sort: (group) => group.owner },
    { head: "pods", num: true, cell: (group) => number(group.pods.length), sort: (group) => group.pods.length },
    { head: "reason", cell: (group) => group.reason, sort: (group) => group.reason },
    { head: "cpu each", num: true, cell: (group) => cpu(group.pods[0].cpu), sort: (group) => group.pods[0].cpu },
    { head: "memory each", num: true, cell: (group) => memory(group.pods[0].memory), sort: (group) => group.pods[0].memory },
    { head: "waits for", num: true, cell: (group) => span(moment.value - group.since), sort: (group) => -group.since },
    { head: "node", cell: (group) => { const targets = [...new Set(group.pods.map((pod) => pod.target).filter(Boolean))];
      return targets.length ? targets.slice(0, 3).map((node) => html`<${Link} to=${nodeTo(node.name)}>${node.name}<//> `) : html`<span class="soft">none yet</span>`; } },
    { head: "why", cell: (group) => html`<button onClick=${() => setChosen(chosen === group.key ? null : group.key)} aria-expanded=${chosen === group.key}>why?<span class="unseen"> ${group.owner}</span></button>` },
  ];
  const expected = waiting.filter((pod) => pod.target).length;
  return html`<h1>Pending pods</h1>
    <p class="lead">${waiting.length ? `${counted(waiting.length, "pod")} ${waiting.length === 1 ? "waits" : "wait"}; for ${number(expected)} a node is there or on its way.` : "Every pod has a node."}</p>
    ${waiting.length > 0 && html`<div class="tools"><input type="search" aria-label="filter by owner or reason" placeholder="owner or reason  ( / )" value=${text} onInput=${(event) => setText(event.target.value)} /></div>
      <${Section} title=${counted(groups.length, "group")}><${Table} columns=${columns} rows=${groups} keyOf=${(group) => group.key} caption="Pods that wait" empty="No group matches." /><//>`}
    ${open && html`<${Group} key=${open.key} group=${open} />`}<${Holding} />`;
}
