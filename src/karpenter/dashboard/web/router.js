// Routes live in the fragment: #/nodes/NAME?q=…; the rest of the address never changes.
import { signal } from "./vendor/signals.js";

/** The parts of a fragment: decoded path segments and parameters. */
export function parsed(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function written(parts, query) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const route = signal(parsed(location.hash));
addEventListener("hashchange", () => { route.value = parsed(location.hash); });

/** Go to another page; the moment of the past that is looked at stays the same. */
export function go(hash) {
  const { parts, query } = parsed(hash);
  const at = route.value.query.at;
  location.hash = written(parts, at && !query.at ? { ...query, at } : query);
}

/** Change parameters of the address in place, so that a link shows the same view. */
export function adjust(changes) {
  const { parts, query } = route.value;
  replace(written(parts, { ...query, ...changes }));
}

/** Another fragment in place of this one. */
export function replace(hash) {
  history.replaceState(null, "", hash);
  route.value = parsed(location.hash);
}
