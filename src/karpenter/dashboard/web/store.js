// Views and what changes them; pure. Columns come and go in the order of the contract.
import { spaced } from "./format.js";

/** The view after a delta; the old one stays as it was. Null if the delta is not the next one. */
export function applied(view, delta) {
  if (delta.seq !== view.seq + 1) return null;
  const next = { ...view, seq: delta.seq, at: delta.at };
  if (delta.dictionaries) next.dictionaries = extended(view.dictionaries, delta.dictionaries);
  for (const table of ["nodes", "pods"]) if (delta[table]) next[table] = changed(view[table], delta[table]);
  for (const whole of ["pools", "totals", "notices"]) if (delta[whole]) next[whole] = delta[whole];
  return next;
}

function extended(dictionaries, entries) {
  const next = { ...dictionaries };
  for (const [name, added] of Object.entries(entries)) {
    next[name] = [...(next[name] ?? [])];
    for (const [place, text] of added) next[name][place] = text;
  }
  return next;
}

function changed(columns, { set = [], del = [] }) {
  const names = Object.keys(columns);
  const next = {};
  const gone = new Set(del);
  const places = new Map(columns.id.map((id, place) => [id, place]));
  const added = set.filter((row) => !places.has(row[0])).sort((a, b) => a[0] - b[0]);
  const kept = gone.size ? columns.id.map((id) => !gone.has(id)) : null;
  names.forEach((name, column) => {
    const values = [...columns[name]];
    for (const row of set) {
      const place = places.get(row[0]);
      if (place !== undefined) values[place] = row[column];
    }
    next[name] = kept ? values.filter((_, place) => kept[place]) : values;
    for (const row of added) next[name].push(row[column]);
  });
  const last = columns.id.at(-1) ?? -1;
  return added.length && added[0][0] < last ? sorted(next, names) : next;
}

function sorted(columns, names) {
  const order = columns.id.map((_, place) => place).sort((a, b) => columns.id[a] - columns.id[b]);
  return Object.fromEntries(names.map((name) => [name, order.map((at) => columns[name][at])]));
}

const NODE_FLAGS = ["managed", "unschedulable", "empty", "drifted", "consolidatable", "doNotDisrupt",
  "pdb", "nominated", "expired", "rebooting"];
const POD_FLAGS = ["daemon", "mirror", "doNotDisrupt", "pdb", "critical", "hidden"];

function flagsOf(bits, names) {
  const flags = {};
  names.forEach((name, place) => { if (bits & (1 << place)) flags[name] = true; });
  return flags;
}

/** Nodes and pods as objects that point to each other, with the texts of the dictionaries. */
export function modelOf(view) {
  const text = view.dictionaries;
  const nodes = view.nodes.id.map((id, at) => {
    const from = (name) => view.nodes[name][at];
    return {
      id, name: from("name"), claim: from("claim"), pool: text.pool[from("pool")],
      zone: text.zone[from("zone")], type: text.type[from("type")],
      capacityType: text.capacityType[from("capacityType")], state: text.nodeState[from("state")],
      cpu: from("cpu"), memory: from("memory"), mostPods: from("pods"), gpu: from("gpu"),
      price: from("price"), isEstimate: from("isEstimate"), created: from("created"),
      expires: from("expires"), emptyUntil: from("emptyUntil"),
      flags: flagsOf(from("flags"), NODE_FLAGS), reason: text.reason[from("reason")],
      pods: [], expected: [], cpuUsed: 0, memoryUsed: 0, count: 1,
    };
  });
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const pods = view.pods.id.map((id, at) => {
    const from = (name) => view.pods[name][at];
    const node = byId.get(from("node")) ?? null;
    const target = byId.get(from("target")) ?? null;
    const pod = {
      id, name: from("name"), namespace: text.namespace[from("namespace")],
      owner: text.owner[from("owner")], node, target, cpu: from("cpu"), memory: from("memory"),
      gpu: from("gpu"), state: text.podState[from("state")], created: from("created"),
      flags: flagsOf(from("flags"), POD_FLAGS), reason: text.reason[from("reason")],
    };
    if (node) {
      node.pods.push(pod);
      node.cpuUsed += pod.cpu;
      node.memoryUsed += pod.memory;
    } else if (target) target.expected.push(pod);
    return pod;
  });
  const waiting = pods.filter((pod) => !pod.node && pod.state === "Waiting");
  return { nodes, pods, byId, waiting };
}

export const shareOf = (pod, node) =>
  Math.max(node.cpu ? pod.cpu / node.cpu : 0, node.memory ? pod.memory / node.memory : 0);

/** Each pod of a node with its part of the price; more than the whole node is divided, less is idle. */
export function sharesOf(node) {
  const raw = node.pods.map((pod) => shareOf(pod, node));
  const sum = raw.reduce((total, share) => total + share, 0);
  return node.pods.map((pod, at) => ({ pod, share: raw[at] / Math.max(1, sum) }));
}

/** Signs of a node: what colour alone must not tell. Each has a glyph, and words for those who hear. */
export function signsOf(node, now) {
  const signs = [];
  const add = (glyph, words, key, text = glyph) => signs.push({ glyph, words, key, text });
  if (node.state === "NotReady") add("!", "not ready", "bad");
  if (node.state === "Draining") add("▼", "draining", "wait");
  if (node.state === "Claimed") add("…", "no machine yet", "wait");
  if (node.state === "Starting") add("↑", "starting", "wait");
  if (node.capacityType === "spot") add("S", "spot", "spot");
  if (node.flags.doNotDisrupt) add("‖", "held by an annotation", "held");
  else if (node.flags.pdb) add("‖", "held by a PDB", "held");
  if (node.emptyUntil) {
    const left = node.emptyUntil - now;
    add("◷", left > 0 ? `empty, may go in ${clockOf(left)}` : "empty, may go", "empty", left > 0 ? `◷ ${clockOf(left)}` : "◷");
  }
  return signs;
}

const clockOf = (seconds) =>
  seconds < 100 ? `${Math.max(0, Math.round(seconds))} s`
    : seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;

/** One row in words, the same for the map's cell and its row in the table. */
export function wordsOf(node, now) {
  const what = [node.type, node.zone, node.pool ? `pool ${node.pool}` : "not Karpenter's"];
  const signs = signsOf(node, now).map((sign) => sign.words);
  const state = ["Ready", "Claimed"].includes(node.state) && signs.length ? [] : [spaced(node.state)];
  const pods = `${node.pods.length} ${node.pods.length === 1 ? "pod" : "pods"}`;
  return [node.name, ...what, ...new Set([...state, ...signs]), pods].filter(Boolean).join(", ");
}
