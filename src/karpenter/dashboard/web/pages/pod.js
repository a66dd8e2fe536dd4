// One pod: where it is or goes, and of each pool the checks up to the first that fails.
import { cpu, hourly, memory, moment as written, percent, span } from "../format.js";
import { shareOf } from "../store.js";
import { isPast, model, moment } from "../stream.js";
import { Answer, Checks, Copy, Facts, html, Link, Money, nodeTo, poolTo, Section, useAnswer } from "../ui.js";

const OUTCOMES = {
  NewNode: "gets a new node", ExistingNode: "fits on a node that exists", Unplaced: "fits nowhere",
  Deferred: "has to wait", Ignored: "is not planned for", Running: "has a node",
};

/** The tree of `explain pod`: pools, their checks, and nodes by refusal. */
export function WhyTree({ answer }) {
  const { place, nodes } = answer;
  const pools = answer.nodePools.map((pool) => ({
    passed: pool.possible, name: html`<${Link} to=${poolTo(pool.nodePool)}>${pool.nodePool}<//>`,
    detail: pool.possible ? `a node for it is possible on ${pool.instanceTypes} instance types${pool.cheapest ? `, the cheapest ${pool.cheapest.instanceType} at ${hourly(pool.cheapest.price, pool.cheapest.isEstimate)}` : ""}` : pool.detail,
    inner: html`<${Checks} items=${pool.checks.map((check) => ({ passed: check.passed, name: check.check, detail: check.detail }))} />`,
  }));
  return html`<p class="lead"><b>It ${OUTCOMES[answer.outcome] ?? answer.outcome}</b>${answer.detail ? `: ${answer.detail}` : ""}</p>
    ${place && html`<p>On ${place.nodePool ? `a new node of ${place.nodePool}` : ""} ${place.node && html`<${Link} to=${nodeTo(place.node)}>${place.node}<//>`}
      ${place.launch && ` (${place.launch.instanceType} ${place.launch.capacityType} in ${place.launch.zone}, ${hourly(place.launch.price, place.launch.isEstimate)})`}${place.awaits ? `, once ${place.awaits}` : ""}.</p>`}
    ${answer.wishes?.length > 0 && html`<h3>Wishes</h3><${Checks} items=${answer.wishes.map((wish) => ({ passed: wish.met, name: wish.wish ?? wish.kind ?? "", detail: wish.detail }))} />`}
    ${pools.length > 0 && html`<h3>Pools: ${answer.nodePools.filter((pool) => pool.possible).length} of ${pools.length} would make a node for it</h3><${Checks} items=${pools} />`}
    ${nodes?.total > 0 && html`<h3>Nodes that exist: ${nodes.possible.length} of ${nodes.total} could take it</h3>
      <${Checks} items=${[...nodes.possible.slice(0, 10).map((each) => ({ passed: true, name: html`<${Link} to=${nodeTo(each.node ?? each)}>${each.node ?? each}<//>` })),
        ...nodes.refused.map((group) => ({ passed: false, name: `${group.nodes.length} ${group.nodes.length === 1 ? "node" : "nodes"}`, detail: group.detail,
          inner: html` <span class="soft">(${group.nodes.slice(0, 4).map((name, at) => html`${at ? ", " : ""}<${Link} to=${nodeTo(name)}>${name}<//>`)}${group.nodes.length > 4 ? " …" : ""})</span>` }))]} />`}`;
}

export function PodPage({ namespace, name }) {
  const pod = model.value.pods.find((each) => each.name === name && each.namespace === namespace);
  const path = `explain/pod/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const answer = useAnswer(isPast.value ? "" : path, pod ? `${pod.state} ${pod.node?.id} ${pod.target?.id}` : "gone");
  const node = pod?.node ?? pod?.target;
  const flags = pod && [pod.flags.daemon && "daemon", pod.flags.mirror && "static pod", pod.flags.critical && "critical", pod.flags.pdb && "held by a PDB", pod.flags.doNotDisrupt && "do-not-disrupt"].filter(Boolean);
  return html`<h1><span class="soft">${namespace}/</span>${name}</h1>
    ${!pod ? html`<p class="note">No such pod is shown ${isPast.value ? "at this moment" : "now"}; it may have finished, or been replaced.</p>`
      : html`<${Facts} items=${[["state", [pod.state, pod.reason].filter(Boolean).join(": ")], ["owner", pod.owner || "none"],
          ["node", pod.node ? html`<${Link} to=${nodeTo(pod.node.name)}>${pod.node.name}<//>` : pod.target ? html`expected on <${Link} to=${nodeTo(pod.target.name)}>${pod.target.name}<//>` : "none yet"],
          ["cpu", cpu(pod.cpu)], ["memory", memory(pod.memory)], pod.gpu > 0 && ["GPUs", pod.gpu],
          node?.price && ["share of the node", html`${percent(shareOf(pod, node), 1)}, <${Money} value=${Math.min(1, shareOf(pod, node)) * node.price} isEstimate=${node.isEstimate} />`],
          [pod.node ? "age" : "waits since", `${written(pod.created, moment.value)} (${span(moment.value - pod.created)})`], flags.length && ["notes", flags.join(", ")]]} />`}
    <${Section} title="Why" aside=${html`<${Copy} text=${`karpenter explain pod ${namespace}/${name}`} />`}>
      ${isPast.value ? html`<p class="soft">Why is told of the present; <${Link} to="#/decisions">decisions<//> have the reasons that were recorded.</p>`
        : html`<${Answer} answer=${answer} what="why it is where it is">${(data) => html`<${WhyTree} answer=${data} />`}<//>`}<//>`;
}
