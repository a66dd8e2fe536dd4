// Keeps the view in step with the server: fetches it, reads the stream, and starts over when told to.
import { batch, computed, effect, signal } from "./vendor/signals.js";
import { asked, begin, got, isRefused, token } from "./api.js";
import { route } from "./router.js";
import { applied, modelOf } from "./store.js";

const LONGEST_MS = 30_000; // between two attempts
const HIDDEN_MS = 60_000; // after which a hidden tab closes its stream
const SILENT_MS = 40_000; // without even a ping: the stream is dead
const MOST_DECISIONS = 200;

export const live = signal(null); // the newest view
const past = signal(null); // the view of ?at=
export const viewError = signal(""); // why there is none
export const view = computed(() => (route.value.query.at ? past.value : live.value));
export const model = computed(() => (view.value ? modelOf(view.value) : null));
export const decisions = signal([]); // what the stream brought, the newest first
export const link = signal({ state: "connecting" }); // connecting, open, lost or hidden
// When the cluster was last heard of, by the server's clock and by ours; a sandbox has a time of its own
export const heard = signal({ at: 0, since: 0 });
export const isOutdated = signal(false);
export const now = signal(Date.now() / 1000); // by our clock
export const present = computed(() => heard.value.at + Math.max(0, now.value - heard.value.since)); // by the server's
export const isPast = computed(() => Boolean(route.value.query.at));

/** The moment that pages speak of: that of the view in the past, else the clock's. */
export const moment = computed(() =>
  (isPast.value || live.value?.isLive === false) && view.value ? Date.parse(view.value.at) / 1000 : present.value);

function hear(text, isAnew = false) {
  const at = Date.parse(text) / 1000;
  if (at > heard.peek().at || isAnew) heard.value = { at, since: Date.now() / 1000 };
}

setInterval(() => {
  now.value = Date.now() / 1000;
}, 1000);

/** Splits text of server-sent events into events; returns what is left over. */
export function parsedEvents(text, tell) {
  const parts = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = parts.pop();
  for (const part of parts) {
    let name = "message";
    const data = [];
    for (const line of part.split("\n")) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    }
    if (data.length) tell(name, JSON.parse(data.join("\n")));
  }
  return rest;
}

/** How long to wait before another attempt: 1, 2, 4 … 30 s, less up to a quarter by chance. */
export const waitBefore = (attempt, chance = Math.random()) =>
  Math.min(LONGEST_MS, 1000 * 2 ** attempt) * (1 - chance / 4);

let pinged = -1;

class Resync extends Error {}

function took(name, data) {
  if (name === "hello") {
    const own = /\/assets\/([^/]+)\//.exec(import.meta.url)?.[1];
    if (data.assets && own && own !== "-" && data.assets !== own) isOutdated.value = true;
    if (data.epoch !== live.value.epoch) throw new Resync("epoch");
  } else if (name === "delta") {
    if (data.seq <= live.value.seq) return;
    const next = applied(live.value, data);
    if (!next) throw new Resync("a delta is missing");
    batch(() => {
      live.value = next;
      hear(data.at);
    });
  } else if (name === "decision") {
    decisions.value = [data, ...decisions.value.filter((each) => each.id !== data.id)].slice(0, MOST_DECISIONS);
  } else if (name === "notice") {
    const others = live.value.notices.filter((each) => each.kind !== data.kind);
    live.value = { ...live.value, notices: [...others, data] };
  } else if (name === "resync") throw new Resync(data.reason);
  else if (name === "ping") {
    hear(data.at);
    if (live.value.seq < pinged) throw new Resync("a delta is missing"); // that of the ping before
    pinged = data.seq;
  }
}

async function read(abort) {
  const { epoch, seq } = live.value;
  const response = await asked(`stream?since=${epoch}-${seq}`, { signal: abort.signal });
  link.value = { state: "open" };
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let silence = 0;
  const watch = () => {
    clearTimeout(silence);
    silence = setTimeout(() => abort.abort(), SILENT_MS);
  };
  try {
    for (;;) {
      watch();
      const { done, value } = await reader.read();
      if (done) throw new TypeError("the stream has ended");
      rest = parsedEvents(rest + value, took);
    }
  } finally {
    clearTimeout(silence);
    abort.abort();
  }
}

async function fetched() {
  const next = await got("view");
  batch(() => {
    live.value = next;
    hear(next.at, true);
  });
}

let wake = () => {};
let running = null;
let hiddenTimer = 0;

const pause = (ms) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  wake = () => {
    clearTimeout(timer);
    done();
  };
});

/** Begin, and go on for as long as the page is open. */
export async function follow() {
  await begin();
  let attempt = 0;
  let followed = -1; // the view that the stream began with
  let resyncs = 0; // without a delta in between
  for (let isFresh = false; ;) {
    try {
      if (!isFresh) await fetched();
      isFresh = true;
      attempt = 0;
      running = new AbortController();
      [followed, pinged] = [live.value.seq, -1];
      await read(running);
    } catch (error) {
      if (error instanceof Resync) {
        isFresh = false;
        if (live.value.seq === followed) resyncs += 1;
        else resyncs = 0;
        if (resyncs) await pause(waitBefore(resyncs - 1));
        continue;
      }
      if (isRefused.value) {
        link.value = { state: "refused" };
        await new Promise((done) => {
          const stop = effect(() => { if (!isRefused.value) { done(); queueMicrotask(() => stop()); } });
        });
        attempt = 0;
        continue;
      }
      if (document.hidden && running?.signal.reason === "hidden") {
        link.value = { state: "hidden" };
        await pause(2 ** 30);
        continue;
      }
      const ms = error.retryAfter ? error.retryAfter * 1000 : waitBefore(attempt++);
      link.value = { state: "lost", until: Date.now() / 1000 + ms / 1000, why: error.message };
      await pause(ms);
    }
  }
}

/** Try again at once. */
export const retry = () => wake();

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(() => running?.abort("hidden"), HIDDEN_MS);
  else if (["hidden", "lost"].includes(link.value.state)) wake();
});

effect(() => {
  const at = route.value.query.at;
  if (!at || !token.value) return;
  viewError.value = "";
  got(`view?at=${encodeURIComponent(at)}`).then(
    (found) => { if (route.peek().query.at === at) past.value = found; },
    (error) => { if (route.peek().query.at === at) viewError.value = error.message; },
  );
});
