// The states of an item: who changed what, the difference to now, and a way back.

import { api } from "./api.js";
import { diffLines } from "./line_diff.js";
import { fill, h, time } from "./dom.js";
import { session } from "./session.js";
import { badge, busy, notice, toast } from "./widgets.js";

const KINDS = { add: "good", update: "accent", delete: "bad", purge: "bad" };

export function historyView(key, { current = null, onrestore }) {
  const box = h("div", { class: "stack" }, busy("Loading the history …"));
  api("/api/history", { body: { space: key.space, id: String(key.id), limit: 200 } }).then(({ history }) => {
    const states = history.filter((state) => !["link", "unlink"].includes(state.action));
    const links = history.length - states.length;
    fill(box, states.length ? h("ol", { class: "plain states" }, states.map((state, index) => stateRow(state, index, states))) : h("p", { class: "muted" }, "No history is stored."),
      links ? h("p", { class: "small muted" }, `${links} changes of links are not listed.`) : null);
  }, (error) => fill(box, notice("error", error.message)));

  function stateRow(state, index, states) {
    const now = current ?? states.find((each) => each.item)?.item;
    const difference = h("div", {});
    const compare = h("button", { class: "small", "aria-expanded": "false", onclick: () => {
      const open = compare.getAttribute("aria-expanded") === "true";
      compare.setAttribute("aria-expanded", String(!open));
      fill(difference, open ? null : diffView(state.item, now));
    } }, "Compare with now");
    const isCurrent = current && index === 0;
    return h("li", { class: "stack" },
      h("div", { class: "row between" }, h("span", { class: "row" }, badge(state.action, KINDS[state.action]), h("span", {}, time(state.at)), state.actor ? h("span", { class: "small muted" }, state.actor) : null, isCurrent ? badge("now") : null),
        h("span", { class: "row" }, state.item && now && !isCurrent ? compare : null,
          state.item && !isCurrent && session.mayWrite(key.space) ? h("button", { class: "small", onclick: () => restore(state) }, "Restore") : null)), difference);
  }

  async function restore(state) {
    try {
      await api("/api/restore", { body: { space: key.space, id: String(key.id), version: state.version } });
      toast("Restored.");
      onrestore();
    } catch (error) {
      toast(error.message);
    }
  }
  return box;
}

const flat = (item) => [`title: ${item.title ?? ""}`, `type: ${item.type ?? ""}`, `tags: ${(item.tags ?? []).join(", ")}`, `summary: ${item.summary ?? ""}`, `properties: ${JSON.stringify(item.properties ?? {})}`, "", item.text ?? ""].join("\n");

function diffView(before, after) {
  const rows = diffLines(flat(before), flat(after));
  if (rows.every(([sign]) => sign === "=")) return h("p", { class: "muted small" }, "The same as now.");
  const kinds = { "+": "plus", "-": "minus" };
  return h("pre", { class: "code diff", tabindex: "0", "aria-label": "Difference to now" }, rows.map(([sign, line]) => h("span", { class: kinds[sign] ?? "" }, `${sign === "=" ? " " : sign} ${line}\n`)));
}
