// One item: its text by passages, its fields, a form to change it, and its history.

import { api, itemPath } from "./api.js";
import { fill, h, time } from "./dom.js";
import { historyView } from "./item_history.js";
import { session } from "./session.js";
import { badge, busy, field, notice, select, showFieldErrors, tabs, toast } from "./widgets.js";

const KINDS = ["node", "entity", "profile", "rule", "claim", "memory"];
const HIDDEN = /^knowloom:/;

/** The panel of a stored item, or of a new one if the key is null. */
export function itemPanel(key, { onchange }) {
  const element = h("section", { class: "card stack", "aria-label": "Item" });
  const close = h("a", { class: "button small", href: "#/knowledge" }, "Close");
  async function load() {
    fill(element, busy("Loading the item …"));
    try {
      draw(await api(itemPath(key.space, key.id)));
    } catch (error) {
      const text = error.status === 404 ? "This item is not stored any more. Its history may still have it." : error.message;
      fill(element, h("div", { class: "row between" }, h("h2", { class: "break" }, key.id), close), notice("error", text), error.status === 404 ? historyView(key, { onrestore: () => { load(); onchange(); } }) : null);
    }
  }

  function draw(item) {
    const panels = [["Read", () => readView(item)]];
    if (session.mayWrite(item.space)) panels.push(["Edit", () => editForm(item, { onsave: () => { load(); onchange(); } })]);
    panels.push(["History", () => historyView(key, { current: item, onrestore: () => { load(); onchange(); } })]);
    fill(element,
      h("div", { class: "row between" }, h("h2", { class: "break grow" }, item.title || item.id), close),
      h("p", { class: "small muted break" }, `${item.space} / ${item.id}`),
      h("div", { class: "row" }, badge(item.kind ?? "node"), item.type ? badge(item.type, "accent") : null, (item.tags ?? []).map((tag) => badge(tag))),
      h("div", { class: "row" },
        h("a", { class: "button small", href: `#/graph?space=${encodeURIComponent(item.space)}&id=${encodeURIComponent(item.id)}`, onclick: () => { session.path = []; } }, "Show in graph"),
        h("a", { class: "button small", href: `#/playground?item=${encodeURIComponent(item.id)}` }, "Why is it missing?"),
        session.mayWrite(item.space) ? h("button", { class: "small danger", onclick: () => remove(item) }, "Delete") : null),
      tabs("Item", panels));
  }

  async function remove(item) {
    try {
      await api(itemPath(item.space, item.id), { method: "DELETE" });
      fill(element, h("div", { class: "row between" }, h("h2", { class: "break" }, item.title || item.id), close), notice("warn", "This item was deleted."), historyView(key, { onrestore: () => { load(); onchange(); } }));
      onchange();
      toast(`Deleted: ${item.title || item.id}`, { text: "Undo", run: async () => {
        await api("/api/restore", { body: { space: item.space, id: String(item.id) } }).then(() => { load(); onchange(); }, (error) => toast(error.message));
      } });
    } catch (error) {
      toast(error.message);
    }
  }

  if (key) load();
  else fill(element, h("div", { class: "row between" }, h("h2", {}, "New item"), close), editForm(null, { onsave: (item) => { onchange(); location.hash = `#/knowledge?space=${encodeURIComponent(item.space)}&id=${encodeURIComponent(item.id)}`; } }));
  return { element };
}

function readView(item) {
  const text = h("div", { class: "item-text" }, item.text ? h("div", { class: "passage" }, item.text) : h("p", { class: "muted" }, "No text."));
  if (item.text && item.text.length > 1000) splitPassages(item, text);
  const facts = [["Summary", item.summary], ["Source", item.source], ["Subject", item.subject], ["Section", item.section], ["Confidence", item.confidence], ["Created", time(item.created_at)], ["Updated", time(item.updated_at)], ["Valid from", time(item.valid_from)], ["Valid to", time(item.valid_to)]];
  const properties = Object.entries(item.properties ?? {}).filter(([name]) => !HIDDEN.test(name));
  const rows = [...facts, ...properties.map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])].filter(([, value]) => value !== undefined && value !== null && value !== "");
  return [text, rows.length ? h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, String(value))))))) : null];
}

/** Show a long text by the passages that are searched. */
async function splitPassages(item, box) {
  const pieces = [];
  try {
    let page = 1;
    while (page && pieces.length < 200) {
      const part = await api("/api/read", { body: { id: item.id, spaces: [item.space], page, max_tokens: 250 } });
      pieces.push(part);
      page = part.next;
    }
  } catch {
    return; // the whole text stays
  }
  fill(box, pieces.map((part) => h("div", { class: "passage" },
    h("span", { class: "where" }, [passageNumbers(part.passages), part.headings.join(" › ")].filter(Boolean).join(" · ")), item.text.slice(part.start, part.end))));
}

function passageNumbers(numbers) {
  const first = (numbers[0] ?? 0) + 1, last = (numbers.at(-1) ?? 0) + 1;
  return first === last ? `Passage ${first}` : `Passages ${first} to ${last}`;
}

function parseProperties(text) {
  if (!text.trim()) return {};
  const value = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("not an object");
  return value;
}

/** The form of an item; nothing typed is lost when the server refuses it. */
function editForm(item, { onsave }) {
  const spaces = item ? [item.space] : session.spaces.map((space) => space.name).filter((name) => session.mayWrite(name));
  const space = item ? h("input", { value: item.space, disabled: true }) : h("input", { value: spaces[0] ?? "default", list: "spaces", required: true });
  const controls = {
    id: h("input", { value: item?.id ?? "", disabled: Boolean(item), required: true, maxlength: 500 }),
    title: h("input", { value: item?.title ?? "" }),
    type: h("input", { value: item?.type ?? "", maxlength: 500 }),
    tags: h("input", { value: (item?.tags ?? []).join(", "), placeholder: "separated by commas" }),
    summary: h("textarea", { rows: 2, value: item?.summary ?? "" }),
    text: h("textarea", { rows: 12, value: item?.text ?? "", class: "mono" }),
    properties: h("textarea", { rows: 4, value: item?.properties && Object.keys(item.properties).length ? JSON.stringify(item.properties, null, 2) : "", class: "mono", placeholder: "{}" }),
  };
  let kind = item?.kind ?? "node";
  const rest = h("div", {});
  const save = h("button", { class: "primary" }, "Save");
  const form = h("form", { class: "stack", onsubmit: async (event) => {
    event.preventDefault();
    fill(rest);
    let properties;
    try {
      properties = parseProperties(controls.properties.value);
    } catch (error) {
      showFieldErrors(form, { fields: [{ field: "properties", message: `must be an object in JSON: ${error.message}` }] });
      return;
    }
    const { version, space: _, ...old } = item ?? {};
    const body = { ...old, id: item ? item.id : controls.id.value, kind, title: controls.title.value, type: controls.type.value, summary: controls.summary.value, text: controls.text.value, properties,
      tags: controls.tags.value.split(",").map((tag) => tag.trim()).filter(Boolean), ...(version ? { version } : {}) };
    delete body.updated_at;
    save.disabled = true;
    try {
      const target = item ? itemPath(item.space, item.id) : `/api/spaces/${encodeURIComponent(space.value)}/items`;
      const stored = await api(target, { method: item ? "PUT" : "POST", body });
      toast("Saved.");
      onsave(stored);
    } catch (error) {
      const others = error.status === 412 ? ["Somebody changed this item meanwhile. Copy your text, and open it again."] : showFieldErrors(form, error);
      fill(rest, others.length ? notice("error", others.join(" ")) : null);
    } finally {
      save.disabled = false;
    }
  } },
  h("div", { class: "grid-form" },
    field("Space", space, { name: "space" }), field("Id", controls.id, { name: "id" }),
    field("Kind", select(KINDS.map((name) => [name, name]), kind, (value) => { kind = value; }), { name: "kind" }), field("Type", controls.type, { name: "type" })),
  item ? null : h("datalist", { id: "spaces" }, spaces.map((name) => h("option", { value: name }))),
  field("Title", controls.title, { name: "title" }), field("Text", controls.text, { name: "text" }), field("Summary", controls.summary, { name: "summary" }),
  field("Tags", controls.tags, { name: "tags" }), field("Properties", controls.properties, { name: "properties", hint: "An object in JSON." }), rest, h("div", { class: "row end" }, save));
  return form;
}
