// Health, for admins: sizes, pending work, requests, degraded answers, limits and keys.

import { api } from "../api.js";
import { count, fill, h } from "../dom.js";
import { keysCard } from "../keys.js";
import { session } from "../session.js";
import { badge, busy, empty, notice, toast } from "../widgets.js";

const REFRESH_MS = 15000;

export function show(main) {
  if (!session.isAdmin) {
    fill(main, h("h1", {}, "Health"), empty("Only for admins", "This key has the role " + (session.rights?.role ?? "viewer") + ". Sign in with an admin's key to see the state of the server."));
    return null;
  }
  const body = h("div", { class: "stack" }, busy("Asking the server …"));
  fill(main, h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Health"), h("p", {}, "The state of the server and its knowledge.")), h("button", { onclick: load }, "Refresh")), body, keysCard());
  async function load() {
    try {
      draw(body, await api("/api/health"), load);
    } catch (error) {
      if (!body.querySelector("table")) fill(body, notice("error", error.message));
    }
  }
  load();
  const timer = setInterval(load, REFRESH_MS);
  return { leave: () => clearInterval(timer) };
}

function draw(body, health, reload) {
  const total = (name) => health.spaces.reduce((sum, space) => sum + space[name], 0);
  const missing = total("without_vector"), outdated = total("outdated_links");
  const requests = health.requests.reduce((sum, row) => sum + Object.values(row.statuses).reduce((a, b) => a + b, 0), 0);
  const failures = health.requests.reduce((sum, row) => sum + Object.entries(row.statuses).filter(([status]) => status >= "500").reduce((a, [, number]) => a + number, 0), 0);
  const tile = (value, label, kind = "") => h("div", { class: "card tile" }, h("strong", {}, value), h("span", { class: "muted small" }, label), kind);
  const repair = (path, text) => h("button", { class: "small", onclick: async (event) => {
    event.target.disabled = true;
    await api(path, path.endsWith("embed") ? { body: {} } : { method: "POST" }).then(() => toast(text), (error) => toast(error.message));
    reload();
  } }, path.endsWith("embed") ? "Embed now" : "Rebuild links");
  fill(body,
    h("div", { class: "tiles" }, tile(count(total("items")), "items"), tile(count(total("edges") + total("links")), "links"),
      tile(count(missing), "items without a vector", missing ? repair("/api/embed", "All items have vectors.") : badge("up to date", "good")),
      tile(count(outdated), "items with outdated links", outdated ? repair("/api/relink", "The links are up to date.") : badge("up to date", "good")),
      tile(count(requests), "requests since the start"), tile(count(failures), "failed requests", failures ? badge("see the log", "bad") : badge("none", "good"))),
    h("section", { class: "card flush scroll", tabindex: "0", "aria-label": "Spaces" }, table(["Space", "Items", "Links by people", "Automatic links", "Without vector", "Outdated"], health.spaces.map((space) => [space.name, space.items, space.edges, space.links, space.without_vector, space.outdated_links]), "Nothing is stored yet.")),
    h("section", { class: "card flush scroll", tabindex: "0", "aria-label": "Requests" }, table(["Route", "Requests", "Errors", "Median ms ≤", "95 % ms ≤"], health.requests.map((row) => [row.route, sum(row.statuses, () => true), sum(row.statuses, (status) => status >= "400"), row.p50_ms ?? "> 10,000", row.p95_ms ?? "> 10,000"]).sort((a, b) => b[1] - a[1]), "No requests yet.")),
    h("section", { class: "card stack", "aria-label": "Degraded answers and limits" }, h("h2", {}, "Degraded answers"),
      Object.keys(health.degraded).length ? h("div", { class: "row" }, Object.entries(health.degraded).map(([code, number]) => badge(`${code}: ${count(number)}`, "warn"))) : h("p", { class: "muted" }, "None since the start."),
      h("p", { class: "small muted" }, `${count(health.context_tokens)} tokens of contexts. Limits: ${health.limits.requests_per_minute ? `${count(health.limits.requests_per_minute)} requests per minute and key` : "no rate limit"}, ${count(health.limits.max_body)} bytes per request. Embedder: ${health.embedder || "none"}.`)));
}

const sum = (statuses, keep) => Object.entries(statuses).filter(([status]) => keep(status)).reduce((total, [, number]) => total + number, 0);

function table(heads, rows, nothing) {
  if (!rows.length) return h("p", { class: "muted pad" }, nothing);
  return h("table", {}, h("thead", {}, h("tr", {}, heads.map((head, index) => h("th", { class: index ? "num" : "" }, head)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) => h("td", { class: index ? "num" : "" }, typeof cell === "number" ? count(cell) : cell))))));
}
