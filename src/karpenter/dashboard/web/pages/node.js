// One node: what it is, why it stays or goes, what would have to change, and what runs on it.
import { counted, cpu, dollars, hourly, memory, moment as written, percent, span, upcoming } from "../format.js";
import { marks } from "../scrubber.js";
import { sharesOf } from "../store.js";
import { isPast, model, moment } from "../stream.js";
import { Answer, Checks, Copy, Decisions, Facts, html, Link, Money, nodeTo, PodLink, poolTo, Ref, Section, Signs, Table, useAnswer } from "../ui.js";

const podRef = (name) => html`<${Ref} to=${`Pod/${name}`} short />`;

/** Who holds a node by a detail such as "PDB default/web allows 0 of 2 for pod default/web-0". */
function Held({ detail }) {
  const pod = /\bpod ([^\s,;]+\/[^\s,;]+)/.exec(detail)?.[1];
  const pdb = /\bPDB ([^\s/]+)\/([^\s]+)/.exec(detail);
  return html`${pod && html` · ${podRef(pod)}`}${pdb && html` · <${Link} to=${`#/?q=${encodeURIComponent(`ns:${pdb[1]} is:blocked`)}`}>pods held in ${pdb[1]}<//>`}`;
}

function Move({ answer }) {
  const { move, budgets, filters } = answer;
  if (!move) return html`<p class="soft">No move is considered for it.</p>`;
  const moves = Object.entries(move.placements ?? {}).map(([node, pods]) => `${counted(pods.length, "pod")} to ${node}`);
  const buys = (move.replacements ?? []).map(({ launch, instanceTypes }) => (launch ? `${launch.instanceType} ${launch.capacityType} in ${launch.zone} at ${hourly(launch.price, launch.isEstimate)}` : instanceTypes?.[0]));
  const left = Object.entries(budgets ?? {}).map(([reason, budget]) => `${budget.remaining} for ${reason}`);
  const miss = filters.find((each) => !each.passed);
  return html`${miss && html`<p class="lead">First to change: ${miss.detail}.</p>`}
    <${Facts} items=${[["the best move", [move.decision, ...moves, ...(buys.length ? [`buy ${buys.join(", ")}`] : [])].join("; ")],
      ["would save", move.savingsHourly === null ? "unknown" : html`<${Money} value=${move.savingsHourly} isEstimate=${answer.isEstimate} month />`],
      left.length && ["budgets leave", left.join(", ")], move.refused && ["refused", move.refused]]} />`;
}

function Why({ answer }) {
  const verdict = { Kept: "stays", Removed: "goes", Planned: "is planned" }[answer.outcome] ?? answer.outcome;
  return html`<p class="lead"><b>It ${verdict}</b>${answer.detail ? `: ${answer.detail}` : ""} <${Held} detail=${answer.detail ?? ""} /></p>
    ${answer.leaving && html`<p>On its way out since ${written(answer.leaving.since, moment.value)}${answer.leaving.waitsFor?.length ? `; waits for ${[answer.leaving.waitsFor].flat().map((each) => each.detail ?? each).join(", ")}` : ""}.</p>`}
    ${answer.filters && html`<${Checks} items=${answer.filters.map((each) => ({ passed: each.passed, name: each.filter, detail: each.detail }))} />`}
    ${answer.takesFrom?.length > 0 && html`<p>It takes pods from ${answer.takesFrom.map((name) => html`<${Link} to=${nodeTo(name)}>${name}<//> `)}.</p>`}`;
}

function Life({ node }) {
  const at = moment.value;
  return html`<ol class="decisions"><li><span class="num">${written(node.created, at)}</span><span class="tag">created</span><span>${span(at - node.created)} ago</span></li>
    ${node.emptyUntil > 0 && html`<li><span class="num">${written(node.emptyUntil, at)}</span><span class="tag warning">empty</span><span>may go ${node.emptyUntil > at ? `in ${span(node.emptyUntil - at)}` : "now"}</span></li>`}
    ${node.expires > 0 && html`<li><span class="num">${written(node.expires, at)}</span><span class="tag">expires</span><span>${node.expires > at ? upcoming(new Date(node.expires * 1000).toISOString(), at) : "has expired"}</span></li>`}</ol>`;
}

export function NodePage({ name }) {
  const node = model.value.nodes.find((each) => each.name === name || (each.claim && each.claim === name));
  const answer = useAnswer(isPast.value || !node ? "" : `explain/node/${encodeURIComponent(node.name)}`, node ? `${node.state} ${node.pods.length}` : "");
  const own = marks.value.filter((record) => record.objects.some((each) => each === `Node/${name}` || (node?.claim && each === `NodeClaim/${node.claim}`))).slice(-30).reverse();
  const log = html`<${Section} title="Its decisions"><${Decisions} records=${own} moment=${(at) => written(at, moment.value)} empty="No decision about it was recorded." /><//>`;
  if (!node) return html`<h1>${name}</h1><p class="note">There is no such node ${isPast.value ? "at this moment" : "any more"}; <${Link} to="#/">the map<//> shows those there are.</p>${log}`;
  const pods = sharesOf(node).sort((a, b) => b.share - a.share);
  const columns = [
    { head: "pod", cell: ({ pod }) => html`<${PodLink} pod=${pod} />`, sort: ({ pod }) => pod.name },
    { head: "owner", cell: ({ pod }) => pod.owner || "–", sort: ({ pod }) => pod.owner },
    { head: "state", cell: ({ pod }) => html`${pod.state}${pod.flags.pdb ? html` <span class="sign">‖ held by a PDB</span>` : ""}${pod.flags.doNotDisrupt ? html` <span class="sign">‖ do-not-disrupt</span>` : ""}`, sort: ({ pod }) => pod.state },
    { head: "cpu", num: true, cell: ({ pod }) => cpu(pod.cpu), sort: ({ pod }) => pod.cpu },
    { head: "memory", num: true, cell: ({ pod }) => memory(pod.memory), sort: ({ pod }) => pod.memory },
    { head: "of the node", num: true, cell: ({ share }) => percent(share, 1), sort: ({ share }) => share },
    { head: "of its price", num: true, cell: ({ share }) => (node.price === null ? "unknown" : hourly(share * node.price, node.isEstimate)), sort: ({ share }) => share },
  ];
  const idle = 1 - pods.reduce((sum, { share }) => sum + share, 0);
  return html`<h1>${node.name}</h1><p><${Signs} node=${node} now=${moment.value} /></p>
    <${Facts} items=${[["state", [node.state, node.reason].filter(Boolean).join(": ")], ["pool", node.pool ? html`<${Link} to=${poolTo(node.pool)}>${node.pool}<//>` : "not Karpenter's"], ["type", node.type || "not known yet"],
      ["capacity", node.capacityType || "–"], ["zone", node.zone || "–"], ["price", html`<${Money} value=${node.price} isEstimate=${node.isEstimate} month />`],
      ["cpu", `${cpu(node.cpuUsed)} of ${cpu(node.cpu)}`], ["memory", `${memory(node.memoryUsed)} of ${memory(node.memory)}`], node.gpu > 0 && ["GPUs", node.gpu],
      ["age", span(moment.value - node.created)], ["NodeClaim", node.claim || "none"]]} />
    <div class="columns"><${Section} title="Why it stays or goes" aside=${html`<${Copy} text=${`karpenter explain node ${node.name}`} />`}>
        ${isPast.value ? html`<p class="soft">Reasons of the past are those that were recorded, below.</p>` : html`<${Answer} answer=${answer} what="why it stays or goes">${(data) => html`<${Why} answer=${data} />`}<//>`}<//>
      <${Section} title="What would have to change" aside=${!isPast.value && html`<${Link} class="button" to=${`#/what-if?drain=${encodeURIComponent(node.name)}`}>Drain it …<//>`}>
        ${isPast.value ? html`<p class="soft">What-if is off in the past.</p>` : html`<${Answer} answer=${answer} what="what could be done with it">${(data) => html`<${Move} answer=${data} />`}<//>`}<//></div>
    <${Section} title=${counted(pods.length, "pod")} aside=${html`<span class="soft num">idle ${percent(Math.max(0, idle), 1)}${node.price === null ? "" : `, ${dollars(Math.max(0, idle) * node.price, node.isEstimate, 4)}/h`}</span>`}>
      <${Table} columns=${columns} rows=${pods} keyOf=${({ pod }) => pod.id} empty="Nothing runs on it." caption="Pods of the node" />
      ${node.expected.length > 0 && html`<h3>Expected on it</h3><ul class="plain">${node.expected.map((pod) => html`<li key=${pod.id}><${PodLink} pod=${pod} /></li>`)}</ul>`}<//>
    <div class="columns"><${Section} title="Time line"><${Life} node=${node} /><//>${log}</div>`;
}
