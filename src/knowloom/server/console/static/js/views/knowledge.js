// Knowledge: browse and search items by facets; read, edit, delete and restore one; add files.

import { api } from "../api.js";
import { count, debounce, fill, h } from "../dom.js";
import { itemList } from "../item_list.js";
import { itemPanel } from "../item_panel.js";
import { session } from "../session.js";
import { uploadDialog } from "../upload.js";
import { checks, empty, field } from "../widgets.js";

const SEARCH_LIMIT = 100;
const kept = { query: "", spaces: new Set(), kinds: new Set(), types: new Set(), tags: new Set() };

export function show(main, params) {
  const page = new KnowledgePage(kept);
  fill(main, page.element);
  page.start();
  page.open(params);
  if (params.get("add")) page.add();
  return { update: (next) => { page.open(next); page.list.draw(); if (next.get("add")) page.add(); } };
}

const address = (item) => `#/knowledge?space=${encodeURIComponent(item.space)}&id=${encodeURIComponent(item.id)}`;

class KnowledgePage {
  constructor(filters) {
    this.filters = filters;
    this.list = itemList({ load: (after, limit) => this.load(after, limit), address, isCurrent: (item) => this.isCurrent(item), onload: (items, next) => this.onload(items, next) });
    this.search = h("input", { type: "search", value: filters.query, placeholder: "Words to search for", oninput: debounce(() => { filters.query = this.search.value; this.list.reset(); }, 250) });
    this.facets = h("div", { class: "stack" });
    const isWide = matchMedia("(min-width: 861px)").matches;
    this.emptyBox = h("div", {});
    this.reader = h("div", { class: "item-panel", hidden: true });
    this.columns = h("div", { class: "knowledge" },
      h("details", { class: "card facets settings", open: isWide }, h("summary", {}, "Filters"), this.facets),
      h("div", { class: "stack" }, field("Search", this.search, { name: "query" }), this.emptyBox, this.list.element), this.reader);
    this.element = h("div", { class: "stack" },
      h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Knowledge"), h("p", {}, "All items that this key may read: find, read, change and add them.")),
        session.mayWrite() ? h("div", { class: "row" }, h("a", { class: "button", href: "#/knowledge?new=1" }, "New item"), h("button", { class: "primary", onclick: () => this.add() }, "Add files")) : null),
      this.columns);
  }

  async start() {
    this.list.reset();
    this.drawFacets();
  }

  isCurrent(item) {
    return this.shown && item.space === this.shown.space && String(item.id) === this.shown.id;
  }

  onload(items) {
    const filtered = this.filters.query || ["spaces", "kinds", "types", "tags"].some((name) => this.filters[name].size);
    this.list.element.hidden = !items.length;
    fill(this.emptyBox, items.length ? null : filtered
      ? empty("No item matches", "Try other words, or take away a filter.", h("button", { onclick: () => this.clear() }, "Clear the filters"))
      : empty("Nothing is stored yet", session.mayWrite() ? "Drop files or folders here, or write the first item." : "This key may only read. Ask an editor to load files, or run: knowloom load FOLDER",
        session.mayWrite() ? h("button", { class: "primary", onclick: () => this.add() }, "Add files") : null));
  }

  clear() {
    for (const name of ["spaces", "kinds", "types", "tags"]) this.filters[name].clear();
    this.filters.query = this.search.value = "";
    this.list.reset();
    this.drawFacets();
  }

  /** A page of the list: browsing has many, a search one. */
  async load(after, limit) {
    const { query, spaces, kinds, types, tags } = this.filters;
    const filters = { kinds: [...kinds], types: [...types], tags: [...tags] };
    if (!/[\p{L}\p{N}]/u.test(query)) {
      const names = spaces.size ? { spaces: [...spaces] } : {};
      return api("/api/browse", { body: { ...names, ...filters, limit, ...(after ? { after } : {}) } });
    }
    const all = session.spaces.map((space) => space.name).slice(0, 200);
    const { hits } = await api("/api/search", { body: { query, spaces: spaces.size ? [...spaces] : all, ...filters, limit: SEARCH_LIMIT } });
    return { items: hits.map((hit) => ({ ...hit.item, snippet: hit.item.summary || (hit.item.text ?? "").slice(hit.passage.start, hit.passage.start + 160) })), next: null };
  }

  async drawFacets() {
    let found;
    try {
      found = await api("/api/facets", { body: {} });
    } catch (error) {
      fill(this.facets, h("p", { class: "field-error" }, error.message));
      return;
    }
    const box = (legend, name) => found[name].length ? checks(legend, found[name].map(({ value, count: number }) => ({ value, hint: count(number) })), this.filters[name], () => this.list.reset()) : null;
    fill(this.facets, box("Space", "spaces"), box("Kind", "kinds"), box("Type", "types"), box("Tag", "tags"),
      found.complete ? null : h("p", { class: "small muted" }, `Counted over the first ${count(found.items)} items.`));
  }

  /** Show the item of the address beside the list. */
  open(params) {
    const id = params.get("id"), isNew = params.get("new");
    this.shown = id ? { space: params.get("space"), id } : null;
    this.reader.hidden = !id && !isNew;
    this.columns.classList.toggle("reading", !this.reader.hidden);
    if (this.reader.hidden) return;
    this.panel = itemPanel(this.shown, { onchange: (change) => this.changed(change) });
    fill(this.reader, this.panel.element);
  }

  changed() {
    this.list.reset();
    this.drawFacets();
  }

  add() {
    uploadDialog({ onclose: async () => { const { refreshSpaces } = await import("../main.js"); await refreshSpaces(); this.changed(); } });
  }
}
