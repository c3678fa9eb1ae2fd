// Two contexts side by side: both texts, the items that differ, the bytes, tokens and time.

import { contextText, itemAddress, tokenBar } from "./blocks.js";
import { count, h } from "./dom.js";
import { badge, tabs } from "./widgets.js";

const KINDS = { added: "good", removed: "bad", changed: "warn", moved: "accent" };

export function compareView(before, after, difference) {
  return h("div", { class: "compare stack" }, summary(before, after, difference),
    tabs("Comparison", [
      ["Items", () => itemTable(difference)],
      ["Side by side", () => h("div", { class: "two" }, side("A", before), side("B", after))],
      ["Text", () => textDiff(difference.text)],
    ]));
}

const sum = (times) => Object.values(times ?? {}).reduce((total, ms) => total + ms, 0);

function summary(before, after, difference) {
  const rows = [
    ["tokens", count(before.tokens), count(after.tokens)],
    ["bytes", count(difference.bytes.before), count(difference.bytes.after)],
    ["items shown", count(shown(before)), count(shown(after))],
    ["left out", count(before.left_out.length), count(after.left_out.length)],
    ["time", `${sum(before.timings_ms).toFixed(0)} ms`, `${sum(after.timings_ms).toFixed(0)} ms`],
  ];
  const verdict = difference.equal ? "Both contexts are the same, byte for byte."
    : `${difference.items.length} items differ, ${difference.unchanged} are the same; the first byte that differs is number ${count(difference.first_byte ?? 0)}.`;
  return h("div", { class: "card stack" }, h("p", {}, verdict), h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", { class: "num" }, "A"), h("th", { class: "num" }, "B"))),
    h("tbody", {}, rows.map(([name, a, b]) => h("tr", {}, h("td", {}, name), h("td", { class: "num" }, a), h("td", { class: "num" }, b)))))));
}

const shown = (context) => context.fragments.reduce((total, fragment) => total + fragment.chosen.length, 0);

function itemTable(difference) {
  if (!difference.items.length) return h("p", { class: "muted" }, "Both show the same items in the same form.");
  const state = (side) => side ? `${side.section} ${side.position}, ${side.form}, ${side.tokens} tokens` : "–";
  return h("div", { class: "card flush scroll", tabindex: "0", role: "region", "aria-label": "Items that differ" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Change", "Item", "A", "B"].map((name) => h("th", {}, name)))),
    h("tbody", {}, difference.items.map((item) => h("tr", {},
      h("td", {}, badge(item.change, KINDS[item.change])),
      h("td", {}, h("a", { href: itemAddress(item) }, item.title || item.id), item.reason ? h("p", { class: "small muted" }, item.reason) : null),
      h("td", { class: "small" }, state(item.before)), h("td", { class: "small" }, state(item.after)))))));
}

function side(name, context) {
  return h("section", { class: "card stack", "aria-label": `Context ${name}` }, h("h2", {}, name), tokenBar(context), contextText(context, () => {}));
}

/** A unified diff with its added and removed lines marked. */
export function textDiff(text) {
  if (!text) return h("p", { class: "muted" }, "The texts are the same.");
  const kind = (line) => line.startsWith("@@") ? "hunk" : line[0] === "+" ? "plus" : line[0] === "-" ? "minus" : "";
  return h("pre", { class: "code diff", tabindex: "0", "aria-label": "Difference of the texts" }, text.split("\n").map((line) => h("span", { class: kind(line) }, `${line}\n`)));
}
