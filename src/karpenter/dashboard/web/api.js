// Questions to the server, each with the token of the printed address.
import { replace } from "./router.js";
import { signal } from "./vendor/signals.js";

const KEPT = "karpenter-token";
const OTHERS_MS = 250; // how long other tabs have to hand over the token
const base = new URL("api/v1/", document.baseURI);
const channel = new BroadcastChannel("karpenter-dashboard");
export const token = signal(sessionStorage.getItem(KEPT) ?? "");
export const isRefused = signal(false); // the token is missing or wrong

channel.onmessage = ({ data }) => {
  if (data?.asks && token.value && !isRefused.value) channel.postMessage({ token: token.value });
  if (data?.token && (!token.value || isRefused.value)) keep(data.token);
};

/** Take a token; the next request uses it. */
export function keep(text) {
  sessionStorage.setItem(KEPT, text);
  token.value = text;
  isRefused.value = false;
}

/** Take the token out of the address, or from another tab of this page. */
export async function begin() {
  const given = /^#(?:\/[^?]*\?)?(?:.*&)?token=([^&]+)/.exec(location.hash);
  if (given) {
    replace("#/");
    keep(decodeURIComponent(given[1]));
    channel.postMessage({ token: token.value });
  } else if (!token.value) {
    channel.postMessage({ asks: true });
    await new Promise((done) => setTimeout(done, OTHERS_MS));
  }
}

/** What the server said no with: its sentence, and its problems with lines and fields. */
class Refusal extends Error {
  constructor(status, body, retryAfter) {
    super(body?.error || `the server answered with status ${status}`);
    this.status = status;
    this.problems = body?.problems ?? [];
    this.retryAfter = retryAfter;
  }
}

/** A response with a status below 400; throws a Refusal for others, and TypeError without a server. */
export async function asked(path, options = {}) {
  const headers = { ...options.headers, "Karpenter-Token": token.value };
  const response = await fetch(new URL(path, base), { ...options, headers, cache: "no-cache" });
  if (response.status === 401) isRefused.value = true;
  if (response.status >= 400) {
    const body = await response.json().catch(() => null);
    throw new Refusal(response.status, body, Number(response.headers.get("Retry-After")) || null);
  }
  return response;
}

export const got = async (path, signalled) => (await asked(path, { signal: signalled })).json();

export async function posted(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await asked(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}
