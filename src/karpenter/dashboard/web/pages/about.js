// What answers here, by which prices and settings, and what it could not read.
import { number } from "../format.js";
import { Answer, Facts, html, Section, Table, useAnswer } from "../ui.js";

const SOURCES = { sandbox: "a sandbox in the dashboard's process", controller: "the controller's own mirrors", live: "a live cluster, read only", files: "files; this cluster stands still" };

export function About() {
  const answer = useAnswer("about");
  return html`<h1>About</h1><${Answer} answer=${answer} what="what this is">${(data) => {
    const { history } = data;
    return html`<${Section} title="This dashboard"><${Facts} items=${[["version", data.version], ["reads", SOURCES[data.source] ?? data.source], ["cluster", data.cluster || "–"], ["provider", data.provider || "none is known"],
        ["prices", data.prices], ["leader", data.leader || "not known"], ["clients", number(data.clients)], ["plan, why and what-if", data.canPlan ? "work" : "are off: pools or prices are missing"]]} />
        <p class="soft">It decides nothing of its own and changes nothing: every sentence is that of <code>karpenter plan</code> and <code>karpenter explain</code>.</p><//>
      <${Section} title="Could not be read">${data.unread.length ? html`<ul class="plain">${data.unread.map((kind) => html`<li>${kind}</li>`)}</ul>` : html`<p class="soft">Everything that is needed can be read.</p>`}<//>
      <${Section} title="History">${history?.since ? html`<p>Kept since ${history.since.replace("T", " ").slice(0, 19)} UTC, ${number(history.bytes / 2 ** 20, 1)} MiB, ${history.isOnDisk ? "on disk" : "in memory"}.</p>` : html`<p class="soft">No history is kept.</p>`}<//>
      <${Section} title="Settings in force" aside=${html`<span class="soft">${data.settingsFrom}</span>`}><${Table} caption="Settings" rows=${Object.entries(data.settings)} keyOf=${([name]) => name}
        columns=${[{ head: "setting", cell: ([name]) => html`<code>${name}</code>`, sort: ([name]) => name }, { head: "value", cell: ([, value]) => value || html`<span class="soft">empty</span>` }]} /><//>`;
  }}<//>`;
}
