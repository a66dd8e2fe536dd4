// What the search field asks for; pure. Words, and `key:value` with the keys below.

const NODE_KEYS = {
  pool: (node) => node.pool,
  zone: (node) => node.zone,
  type: (node) => node.type,
  node: (node) => node.name,
};
const isHeld = ({ flags }) => Boolean(flags.pdb || flags.doNotDisrupt);
const POD_KEYS = {
  ns: (pod) => pod.namespace,
  owner: (pod) => pod.owner,
  pod: (pod) => pod.name,
};
const IS = {
  spot: { node: (node) => node.capacityType === "spot" },
  blocked: { node: (node) => isHeld(node), pod: (pod) => isHeld(pod) },
  empty: { node: (node) => Boolean(node.flags.empty) },
  draining: { node: (node) => node.state === "Draining" },
  pending: { pod: (pod) => !pod.node },
};
export const KEYS = [...Object.keys(NODE_KEYS), ...Object.keys(POD_KEYS), "state", "is"];
const has = (text, part) => (text ?? "").toLowerCase().includes(part);

/** Terms of a query; each tells whether it holds of a node, or of a pod, or of either. */
export function parsed(query) {
  return query.toLowerCase().split(/\s+/).filter(Boolean).map(termOf);
}

function termOf(word) {
  const [key, ...rest] = word.split(":");
  const value = rest.join(":");
  if (!rest.length || !KEYS.includes(key)) {
    return {
      node: (node) => ["name", "type", "zone", "pool", "claim"].some((each) => has(node[each], word)),
      pod: (pod) => has(`${pod.namespace}/${pod.name}`, word) || has(pod.owner, word),
    };
  }
  if (key === "is") return IS[value] ?? { node: () => false };
  if (key === "state") return { node: (node) => has(node.state, value), pod: (pod) => has(pod.state, value) };
  if (NODE_KEYS[key]) return { node: (node) => has(NODE_KEYS[key](node), value) };
  return { pod: (pod) => has(POD_KEYS[key](pod), value) };
}

/** Ids of the nodes and pods that a query finds; null if it is empty. */
export function found(model, query) {
  const terms = parsed(query);
  if (!terms.length) return null;
  const pods = new Set();
  const nodes = new Set();
  for (const pod of model.pods) {
    const place = pod.node ?? pod.target;
    const fits = terms.every((term) => term.pod?.(pod) || (place && term.node?.(place)));
    if (!fits || !terms.some((term) => term.pod?.(pod))) continue;
    pods.add(pod.id);
    if (place) nodes.add(place.id);
  }
  for (const node of model.nodes) if (terms.every((term) => term.node?.(node))) nodes.add(node.id);
  return { nodes, pods };
}
