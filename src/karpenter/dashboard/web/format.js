// How figures, moments and names are written; pure.
const GIB = 2 ** 30;
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export const number = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Dollars per hour with as many digits as `plan` prints; null is a price that is not known. */
export function hourly(value, isEstimate = false) {
  if (value === null || value === undefined) return "unknown";
  return `${isEstimate ? "~" : ""}${value < 0 ? "−" : ""}$${number(Math.abs(value), 4)}/h`;
}

export function dollars(value, isEstimate = false, digits = 2) {
  if (value === null || value === undefined) return "unknown";
  return `${isEstimate ? "~" : ""}${value < 0 ? "−" : ""}$${number(Math.abs(value), digits)}`;
}

export const monthly = (value, isEstimate = false) =>
  value === null || value === undefined ? "unknown" : `${dollars(value * 730, isEstimate)}/month`;

export const cpu = (millicores) =>
  number(millicores / 1000, millicores % 1000 === 0 || millicores >= 100_000 ? 0 : millicores % 100 ? 2 : 1);

export function memory(bytes) {
  if (bytes >= 1024 * GIB) return `${number(bytes / 1024 / GIB, 1)} TiB`;
  if (bytes >= GIB) return `${number(bytes / GIB, bytes % GIB ? 1 : 0)} GiB`;
  return `${number(bytes / 2 ** 20)} MiB`;
}

export const percent = (share, digits = 0) =>
  Number.isFinite(share) ? `${number(share * 100, digits)} %` : "–";

export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** A span of time with its two largest units. */
export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const at = UNITS.findIndex(([size]) => whole >= size);
  if (at < 0) return "0 s";
  const [size, unit] = UNITS[at];
  const [small, name] = UNITS[at + 1] ?? [1, ""];
  const rest = at + 1 < UNITS.length ? Math.floor((whole % size) / small) : 0;
  return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
}

export const ago = (seconds, now) => `${span(now - seconds)} ago`;

/** A moment of the day in UTC; with its date if that is not the day of `now`. */
export function moment(value, now = Date.now() / 1000) {
  const seconds = typeof value === "string" ? Date.parse(value) / 1000 : value;
  if (!Number.isFinite(seconds)) return "–";
  const text = new Date(seconds * 1000).toISOString();
  const isToday = text.slice(0, 10) === new Date(now * 1000).toISOString().slice(0, 10);
  return `${isToday ? "" : `${text.slice(0, 10)} `}${text.slice(11, 19)}`;
}

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** A moment to come, as people speak of it: "Monday 09:00 UTC (in 14 h)". */
export function upcoming(text, now) {
  const at = Date.parse(text) / 1000;
  const left = at - now;
  const iso = new Date(at * 1000).toISOString();
  const day = left < 6 * 86400 ? DAYS[new Date(at * 1000).getUTCDay()] : iso.slice(0, 10);
  return `${day} ${iso.slice(11, 16)} UTC (in ${span(left)})`;
}

/** A name with its middle left out, where its ends tell more than its beginning alone. */
export function shortened(text, most) {
  if (text.length <= most) return text;
  if (most < 3) return text.slice(0, Math.max(0, most));
  const tail = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/** A CamelCase state in words: "not ready". */
export const spaced = (text) => text.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();

/** The route of an object such as Node/a or Pod/default/web; empty if it has no page. */
export function routeOf(reference) {
  const [kind, ...names] = reference.split("/");
  const parts = names.map(encodeURIComponent);
  if (kind === "Node" && parts.length === 1) return `#/nodes/${parts[0]}`;
  if (kind === "NodeClaim" && parts.length === 1) return `#/nodes/${parts[0]}`;
  if (kind === "NodePool" && parts.length === 1) return `#/pools/${parts[0]}`;
  if (kind === "Pod" && parts.length === 2) return `#/pods/${parts.join("/")}`;
  return "";
}

/** A CSV document; text that a spreadsheet would take for a formula is quoted. */
export function csv(rows) {
  const field = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}
