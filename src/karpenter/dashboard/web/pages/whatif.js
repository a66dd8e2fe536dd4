// What would happen: drain, apply, delete or set something in thought; nothing leaves the server's process.
import { useMemo, useState } from "../vendor/preact-hooks.js";
import { posted } from "../api.js";
import { coloring } from "../draw.js";
import { counted, hourly, monthly, span } from "../format.js";
import { ClusterMap } from "../map.js";
import { adjust, route } from "../router.js";
import { scheme } from "../settings.js";
import { isPast, model, moment, view } from "../stream.js";
import { html, Link, nodeTo, Ref, say, Section, sentence } from "../ui.js";

const words = (text) => text.split(/[\s,]+/).filter(Boolean);
const GROUPS = { KWOKNodeClass: "karpenter.kwok.sh", EC2NodeClass: "karpenter.k8s.aws" };

/** The manifest of a pool, with what a view knows of it. */
function poolText(pool) {
  if (!pool) return "";
  const [kind, name] = pool.nodeClass.split("/");
  const limits = Object.entries(pool.limits).map(([resource, limit]) => [resource, resource === "cpu" ? `${limit}m` : String(limit)]);
  const budgets = pool.budgets.map((each) => Object.fromEntries(Object.entries(each).filter(([, value]) => value !== null)));
  return `# It takes the place of the pool as it is. Requirements, taints and labels of the template are not known
# to this page; add them from: kubectl get nodepool ${pool.name} -o yaml
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ${JSON.stringify(pool.name)}}
spec:
${pool.weight ? `  weight: ${pool.weight}\n` : ""}${pool.replicas !== null ? `  replicas: ${pool.replicas}\n` : ""}  limits: ${JSON.stringify(Object.fromEntries(limits))}
  disruption:
    consolidationPolicy: ${pool.consolidationPolicy}
    consolidateAfter: ${pool.consolidateAfter}
    budgets: ${JSON.stringify(budgets)}
  template:
    spec:
      nodeClassRef: {group: ${GROUPS[kind] ?? "\"\""}, kind: ${kind}, name: ${name}}
      requirements: []
`;
}

function bodyOf({ drain, apply, remove, set }) {
  const body = {};
  if (words(drain).length) body.drain = words(drain);
  if (apply.trim()) body.apply = apply;
  if (words(remove).length) body.delete = words(remove);
  const pairs = set.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => { const [name, ...rest] = line.split("="); return [name.trim(), rest.join("=").trim()]; });
  if (pairs.length) body.set = Object.fromEntries(pairs);
  return body;
}

/** The cluster with the nodes that would come, and marks on those that would go. */
function changed(current, diff) {
  const gone = new Set(diff.nodesRemoved);
  const nodes = current.nodes.map((node) => (gone.has(node.name) ? { ...node, mark: "going" } : { ...node, mark: undefined }));
  const size = (text, unit = 1) => (parseFloat(text) || 1) * unit;
  const added = diff.nodesAdded.map((claim, at) => ({
    id: -1 - at, name: claim.name, claim: claim.name, pool: claim.nodePool, zone: claim.launch?.zone ?? "", type: claim.launch?.instanceType ?? claim.instanceTypes?.[0] ?? "",
    capacityType: claim.launch?.capacityType ?? "", state: "Claimed", cpu: size(claim.requests?.cpu, /m$/.test(claim.requests?.cpu) ? 1 : 1000), memory: 0, mostPods: 110, gpu: 0, price: claim.launch?.price ?? null, isEstimate: false,
    created: Infinity, expires: 0, emptyUntil: 0, flags: {}, reason: "", pods: [], expected: [], cpuUsed: 0, memoryUsed: 0, count: 1, mark: "added" }));
  return [...nodes, ...added];
}

function Result({ answer }) {
  const { diff, after, before } = answer;
  const current = model.value;
  const nodes = useMemo(() => changed(current, diff), [current, answer]);
  const colors = useMemo(() => coloring(current, "namespace", scheme.value), [current, scheme.value]);
  const list = (title, items, cell) => items.length > 0 && html`<h3>${title}</h3><ul class="plain">${items.slice(0, 100).map((item) => html`<li>${cell(item)}</li>`)}${items.length > 100 && html`<li class="soft">and ${items.length - 100} more</li>`}</ul>`;
  const pod = (name) => html`<${Ref} to=${`Pod/${name}`} short />`;
  const places = new Map([...Object.entries(after.provisioning?.existing ?? {}), ...(after.provisioning?.nodeClaims ?? []).map((claim) => [`new ${claim.name}`, claim.pods])].flatMap(([place, pods]) => pods.map((each) => [each, place])));
  const reasons = new Map((after.provisioning?.unplaced ?? []).map((each) => [each.pod, each.reasons?.map((reason) => [reason.nodePool, reason.detail].filter(Boolean).join(": ")).join("; ")]));
  const change = diff.hourly;
  return html`<${Section} title="What would change" aside=${html`<span class="soft">worked out in ${answer.took.toFixed(2)} s</span>`}>
      ${answer.isPartial && html`<p class="note warning">Time ran out before all was looked at.</p>`}
      <p class="lead"><b>${counted(diff.nodesAdded.length, "node")}</b> would come, <b>${counted(diff.nodesRemoved.length, "node")}</b> would go, <b>${counted(diff.podsMoved.length, "pod")}</b> would move;
        ${" "}${counted(diff.podsPlaced.length, "pod")} more would have a place, ${counted(diff.podsUnplaced.length, "pod")} fewer.
        ${" "}${change === null ? "What it costs is not known." : Math.abs(change) < 1e-9 ? "It would cost the same." : `It would cost ${hourly(Math.abs(change), diff.isEstimate)} ${change > 0 ? "more" : "less"} (${monthly(Math.abs(change), diff.isEstimate)}).`}</p>
      ${answer.held?.length > 0 && html`<div class="note warning"><b>Held by PDBs</b><ul class="plain">${answer.held.map((each) => html`<li>${pod(each.pod)}<span>${each.detail ?? each.pdb}</span></li>`)}</ul></div>`}
      <div class="still"><${ClusterMap} nodes=${nodes} colors=${colors} found=${null} now=${moment.value} isStill label="Map of the cluster after the change" /></div>
      <div class="columns"><div>${list("Nodes that would come", diff.nodesAdded, (claim) => html`<span>${claim.name} <span class="soft">${[claim.launch?.instanceType, claim.launch?.capacityType, claim.launch?.zone].filter(Boolean).join(", ")}; ${counted(claim.pods?.length ?? 0, "pod")}</span></span><span class="num">${hourly(claim.launch?.price, claim.launch?.isEstimate)}</span>`)}
        ${list("Nodes that would go", diff.nodesRemoved, (name) => html`<${Link} to=${nodeTo(name)}>${name}<//>`)}</div>
        <div>${list("Pods without a place", diff.podsUnplaced, (name) => html`${pod(name)}<span class="soft">${reasons.get(name) ?? ""}</span>`)}${list("Pods with a place now", diff.podsPlaced, (name) => html`${pod(name)}<span class="soft">${places.get(name) ?? ""}</span>`)}
          ${list("Pods that would move", diff.podsMoved, (name) => html`${pod(name)}<span class="soft">${places.get(name) ?? ""}</span>`)}</div></div><//>`;
}

export function WhatIf() {
  const { query } = route.value;
  const [fields, setFields] = useState({ drain: query.drain ?? "", apply: poolText(view.value.pools.find((pool) => pool.name === query.pool)), remove: "", set: "" });
  const [result, setResult] = useState({});
  const write = (name) => (event) => setFields({ ...fields, [name]: event.target.value });
  const body = bodyOf(fields);
  const ask = async (event) => {
    event.preventDefault();
    setResult({ isAsking: true });
    try {
      const answer = await posted("what-if", body);
      setResult({ answer });
      say(`${counted(answer.diff.nodesAdded.length, "node")} would come, ${counted(answer.diff.nodesRemoved.length, "node")} would go`, true);
    } catch (error) {
      setResult({ error });
    }
  };
  const { error } = result;
  return html`<h1>What if</h1><p>Plan with a change, in thought: nothing is written, and nothing leaves the dashboard's process.</p>
    ${isPast.value ? html`<p class="note">What-if is off in the past. <button onClick=${() => adjust({ at: "" })}>back to live</button></p>` : html`<section><form class="form" onSubmit=${ask}>
      <div class="columns"><div class="form"><label for="drain">Drain these nodes</label><input id="drain" list="nodes" value=${fields.drain} onInput=${write("drain")} placeholder="node-1 node-2" spellcheck="false" />
          <datalist id="nodes">${model.value.nodes.slice(0, 500).map((node) => html`<option value=${node.name} />`)}</datalist>
          <label for="remove">Delete these objects</label><input id="remove" value=${fields.remove} onInput=${write("remove")} placeholder="NodePool/batch Deployment/default/web" spellcheck="false" />
          <label for="set">Other settings, one a line</label><textarea id="set" rows="3" value=${fields.set} onInput=${write("set")} placeholder="PREFERENCE_POLICY=Ignore" spellcheck="false"></textarea></div>
        <div class="form"><label for="apply">Apply these manifests (YAML)</label><textarea id="apply" rows="11" value=${fields.apply} onInput=${write("apply")} spellcheck="false" placeholder=${"apiVersion: apps/v1\nkind: Deployment\n…"}></textarea></div></div>
      <div class="form-row"><button class="primary" disabled=${!Object.keys(body).length || result.isAsking}>${result.isAsking ? "planning …" : "Plan it"}</button>
        <span class="soft" role="status">${result.isAsking ? "this takes a few seconds at most" : ""}</span></div></form></section>`}
    ${error && html`<div class="note problem" role="alert"><p>${sentence(error.status === 404 && /^there is no|status 404/.test(error.message) ? "this server does not answer what-if questions yet" : error.message)}</p>
      ${error.problems?.length > 0 && html`<ul>${error.problems.map((each) => html`<li>${[each.line && `line ${each.line}`, each.field].filter(Boolean).join(", ")}${each.line || each.field ? ": " : ""}${each.text}</li>`)}</ul>`}</div>`}
    ${result.answer && !isPast.value && html`<${Result} answer=${result.answer} />`}`;
}
