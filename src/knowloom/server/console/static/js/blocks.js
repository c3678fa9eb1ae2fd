// The text of a context, block by block, with the reason for each.

import { count, h, icon } from "./dom.js";
import { session, marks } from "./session.js";
import { badge } from "./widgets.js";

const FORM_KINDS = { whole: "good", excerpt: "accent", summary: "warn", pointer: "" };

/** The colour of the part with this number. */
export const partColour = (index) => `var(--p${index % 8})`;

/** Cut the text into blocks of items and the lines between them: [{text, chosen, part}]. */
export function splitText(context) {
  const pieces = [];
  let position = 0;
  context.fragments.forEach((fragment, part) => {
    for (const chosen of fragment.chosen) {
      const at = locate(context.text, chosen.text, position);
      if (!at) {
        pieces.push({ missing: true, chosen, part });
        continue;
      }
      if (at.start > position) pieces.push({ text: context.text.slice(position, at.start), part: null });
      pieces.push({ text: context.text.slice(at.start, at.end), chosen, part });
      position = at.end;
    }
  });
  if (position < context.text.length) pieces.push({ text: context.text.slice(position), part: null });
  return pieces;
}

/** Find the block of an item; layouts may trim it or indent it, so its first line will do. */
function locate(text, block, from) {
  const start = text.indexOf(block, from);
  if (start >= 0) return { start, end: start + block.length };
  const lines = block.trim().split("\n");
  const first = lines[0].trim();
  const near = first ? text.indexOf(first, from) : -1;
  if (near < 0) return null;
  const last = lines[lines.length - 1].trim();
  const end = text.indexOf(last, near);
  return { start: near, end: end < 0 ? near + first.length : end + last.length };
}

/** The bar of tokens by part. */
export function tokenBar(context) {
  const budget = context.query.max_tokens;
  const parts = context.fragments.map((fragment, index) => ({ name: fragment.name, tokens: fragment.tokens, index })).filter((part) => part.tokens);
  const other = context.tokens - parts.reduce((sum, part) => sum + part.tokens, 0);
  const total = Math.max(budget ?? 0, context.tokens, 1);
  const used = budget === null ? `${count(context.tokens)} tokens` : `${count(context.tokens)} of ${count(budget)} tokens`;
  return h("div", { class: "tokens" },
    h("div", { class: "token-bar", role: "img", "aria-label": `${used}: ${parts.map((part) => `${part.name} ${part.tokens}`).join(", ")}` },
      parts.map((part) => h("div", { style: { width: `${(100 * part.tokens) / total}%`, background: partColour(part.index) } })),
      other > 0 ? h("div", { class: "other", style: { width: `${(100 * other) / total}%` } }) : null),
    h("div", { class: "row small" }, h("strong", { class: "num" }, used),
      parts.map((part) => h("span", { class: "legend" }, h("span", { class: "dot", style: { background: partColour(part.index) } }), `${part.name} `, h("span", { class: "num muted" }, count(part.tokens)))),
      other > 0 ? h("span", { class: "legend muted" }, h("span", { class: "dot other" }), "between ", h("span", { class: "num" }, count(other))) : null));
}

/** The text with its blocks; `onselect` is called for the block under the pointer or the focus. */
export function contextText(context, onselect) {
  const pieces = splitText(context);
  const blocks = pieces.map((piece) => {
    if (piece.missing) return null;
    if (!piece.chosen) return h("span", { class: "gap-text" }, piece.text);
    const { chosen } = piece;
    const select = () => {
      for (const other of box.querySelectorAll(".block.selected")) other.classList.remove("selected");
      block.classList.add("selected");
      onselect(chosen, context);
    };
    const label = `${chosen.title || chosen.id}: ${chosen.form}, ${chosen.tokens} tokens, score ${chosen.score.toFixed(2)}`;
    const block = h("span", { class: "block", role: "button", tabindex: "0", "aria-label": label, style: { "--part": partColour(piece.part) },
      onmouseenter: select, onfocus: select, onclick: select,
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(); } } }, piece.text);
    return block;
  });
  const box = h("pre", { class: "context-text" }, blocks);
  return box;
}

const graphAddress = (item) => `#/graph?space=${encodeURIComponent(item.space)}&id=${encodeURIComponent(item.id)}`;
export const itemAddress = (item) => `#/knowledge?space=${encodeURIComponent(item.space)}&id=${encodeURIComponent(item.id)}`;

function signalRows(entry) {
  const rows = Object.entries(entry.signals);
  if (!rows.length) return null;
  return h("div", { class: "signals" }, rows.map(([name, value]) => [
    h("span", { class: "small" }, name),
    h("div", { class: "bar" }, h("div", { style: { width: `${Math.min(100, Math.max(0, value * 100))}%` } })),
    h("span", { class: "num small" }, value.toFixed(3))]));
}

function pathSteps(entry, context) {
  if (entry.path.length < 2) return null;
  const titles = new Map(context.items.map((item) => [`${item.space}\n${item.id}`, item.title || item.id]));
  const links = entry.links ?? (entry.edge ? [entry.edge] : []);
  const steps = entry.path.map((key, index) => {
    const link = links[index - 1 - (entry.path.length - 1 - links.length)];
    return h("li", {}, index && link ? h("span", { class: "muted small" }, `${link.type ?? "related"} (${Number(link.weight ?? 1).toFixed(2)}${link.origin ? ", automatic" : ""}) → `) : null,
      titles.get(`${key.space}\n${key.id}`) ?? key.id);
  });
  return h("div", {}, h("h3", {}, "Path"), h("ol", { class: "plain path" }, steps));
}

/** A button that marks an item as an answer of the question, for the evaluation. */
export function markButton(context, entry) {
  const question = context.query.text;
  const button = h("button", { class: "small", "aria-pressed": String(marks.has(question, entry)), onclick: () => {
    button.setAttribute("aria-pressed", String(marks.toggle(question, context.query.spaces, entry)));
  } }, icon("star"), "Right answer");
  return button;
}

/** Everything known about a block: form, tokens, scores, path, source. */
export function blockDetails(entry, context) {
  const item = context.items.find((each) => each.space === entry.space && each.id === entry.id) ?? {};
  const lines = item.properties?.["knowloom:lines"];
  const source = [item.source, lines ? `lines ${lines.join("–")}` : ""].filter(Boolean).join(", ");
  return h("div", { class: "stack" },
    h("div", {}, h("h2", { class: "break" }, entry.title || entry.id), h("p", { class: "muted small break" }, `${entry.space} / ${entry.id}`)),
    h("div", { class: "row" }, badge(entry.form, FORM_KINDS[entry.form]), badge(`${count(entry.tokens)} tokens`), badge(`score ${entry.score.toFixed(3)}`), entry.type ? badge(entry.type) : null),
    entry.why ? h("p", { class: "break" }, entry.why) : null,
    signalRows(entry), pathSteps(entry, context),
    source ? h("p", { class: "small muted break" }, "Source: ", source) : null,
    h("div", { class: "row" },
      h("a", { class: "button small", href: itemAddress(entry) }, "Read"),
      h("a", { class: "button small", href: graphAddress(entry), onclick: () => { session.path = entry.path; } }, "Show in graph"),
      markButton(context, entry)));
}

/** The change of settings that a remedy stands for: {label, apply}, null if there is none. */
export function parseRemedy(remedy) {
  const tokens = /max_tokens=(\d+)/.exec(remedy);
  if (tokens) return { label: `Budget ${count(tokens[1])}`, apply: (settings) => { settings.max_tokens = Number(tokens[1]); } };
  if (/more than .* times the tokens/.test(remedy)) return { label: "No limit", apply: (settings) => { settings.max_tokens = null; } };
  const space = /spaces=\['(.*)'\]/.exec(remedy);
  if (space) return { label: `Add space ${space[1]}`, apply: (settings) => { settings.spaces.add(space[1]); } };
  const limit = /limit=(\d+)/.exec(remedy), score = /min_score=([\d.e-]+)/.exec(remedy);
  if (!limit && !score) return null;
  const label = [limit ? `Limit ${limit[1]}` : "", score ? `Minimum score ${Number(score[1]).toFixed(2)}` : ""].filter(Boolean).join(", ");
  return { label, apply: (settings) => {
    if (limit) settings.limit = limit[1];
    if (score) settings.min_score = String(Math.floor(Number(score[1]) * 100) / 100);
  } };
}

/** The candidates that are not in the text, why, and what would bring them in. */
export function leftOutList(context, onapply, shown = 12) {
  const rows = context.left_out;
  if (!rows.length) return h("p", { class: "muted" }, "Nothing was left out: every candidate is in the text.");
  const list = h("ul", { class: "plain left-out" });
  const draw = (from, to) => list.append(...rows.slice(from, to).map((entry) => leftOutRow(entry, context, onapply)));
  draw(0, shown);
  const more = h("button", { class: "small", onclick: () => { draw(shown, rows.length); more.remove(); } }, `Show ${count(rows.length - shown)} more`);
  return h("div", { class: "stack" }, list, rows.length > shown ? more : null);
}

function leftOutRow(entry, context, onapply) {
  const remedy = parseRemedy(entry.remedy);
  return h("li", {},
    h("div", { class: "row between" }, h("a", { class: "break grow", href: itemAddress(entry) }, entry.title || entry.id),
      entry.score ? h("span", { class: "num muted small" }, entry.score.toFixed(2)) : null),
    h("p", { class: "small muted break" }, entry.fragment ? `${entry.fragment}: ` : "", entry.reason),
    h("div", { class: "row" },
      remedy ? h("button", { class: "small", title: entry.remedy, onclick: () => onapply(remedy) }, remedy.label) : entry.remedy ? h("span", { class: "small muted" }, entry.remedy) : null,
      markButton(context, entry)));
}
