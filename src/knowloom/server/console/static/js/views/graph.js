// The graph: the neighbourhood of an item, drawn and as a list, with links to add and forbid.

import { api } from "../api.js";
import { drawGraph } from "../graph_drawing.js";
import { fill, h, plural } from "../dom.js";
import { itemPicker } from "../item_picker.js";
import { session } from "../session.js";
import { badge, checks, empty, field, notice, select, showFieldErrors, toast } from "../widgets.js";

const PER_ITEM = 25, MAX_NODES = 2000;
const keyOf = (item) => `${item.space}\n${item.id}`;
const ends = (edge) => [`${edge.space}\n${edge.source}`, `${edge.target_space || edge.space}\n${edge.target}`];
// The API leaves out the defaults of an edge.
const complete = (edge) => ({ type: "related", weight: 1, ...edge });
let kept = null; // the graph, while another view is open

export function show(main, params) {
  kept ??= { nodes: new Map(), edges: new Map(), expanded: new Set(), focus: null };
  const page = new GraphPage(kept);
  fill(main, page.element);
  const start = params.get("id") ? { space: params.get("space"), id: params.get("id") } : null;
  if (start) page.open(start);
  else if (kept.focus) page.draw();
  return { leave: () => page.drawing?.destroy() };
}

class GraphPage {
  constructor(state) {
    this.state = state;
    this.filters = { types: new Set(), hidden: new Set(), weight: 0, origin: "" };
    this.picker = itemPicker({ placeholder: "Find an item to start from …", onpick: (item) => this.open(item) });
    this.canvas = h("div", { class: "graph-canvas" });
    this.panel = h("section", { class: "card stack", "aria-label": "Selected item" });
    this.legend = h("div", { class: "swatches" });
    this.message = h("div", {});
    this.typeBox = h("div", {});
    const weight = h("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0, oninput: () => { this.filters.weight = Number(weight.value); this.draw(); } });
    this.element = h("div", { class: "stack" },
      h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Graph"), h("p", {}, "The links around an item. Click an item to see its links, twice to follow them.")),
        h("button", { onclick: () => this.clear() }, "Clear")),
      h("div", { class: "card graph-tools" }, field("Item", this.picker.input, {}),
        field("Least weight of links", weight, {}),
        field("Made by", select([["", "people and knowloom"], ["people", "people"], ["automatic", "knowloom"]], "", (value) => { this.filters.origin = value; this.draw(); }), {})),
      this.message,
      h("div", { class: "graph" }, h("div", { class: "stack" }, this.canvas, this.legend, this.typeBox), this.panel));
    // The suggestions hang below the box of the field.
    this.picker.input.parentElement.append(this.picker.element.querySelector("ul"));
    this.picker.input.parentElement.classList.add("suggest");
    this.drawEmpty();
  }

  drawEmpty() {
    fill(this.canvas, h("div", { class: "pad" }, empty("Choose an item", "Find one above, or open “Show in graph” at a block of the playground.")));
    fill(this.panel, h("p", { class: "muted" }, "Nothing is selected."));
  }

  clear() {
    Object.assign(this.state, { nodes: new Map(), edges: new Map(), expanded: new Set(), focus: null });
    session.path = [];
    this.drawing?.destroy();
    this.drawing = null;
    fill(this.legend);
    fill(this.typeBox);
    this.drawEmpty();
  }

  async open(item) {
    this.state.focus = keyOf(item);
    const path = session.path.some((key) => keyOf(key) === keyOf(item)) ? session.path : [item];
    await this.expand(path.length ? path : [item]);
  }

  /** Load the links of items, and draw them. */
  async expand(items) {
    try {
      const body = { items: items.map(({ space, id }) => ({ space, id: String(id) })), limit: PER_ITEM };
      const found = await api("/api/neighbours", { body });
      if (!found.items.some((item) => keyOf(item) === keyOf(items[0]))) throw new Error(`The item ${items[0].id} is not stored any more.`);
      for (const item of found.items) if (this.state.nodes.size < MAX_NODES || this.state.nodes.has(keyOf(item))) this.state.nodes.set(keyOf(item), item);
      for (const edge of found.edges.map(complete)) this.state.edges.set([...ends(edge), edge.type].join("\n"), edge);
      for (const item of items) this.state.expanded.add(keyOf(item));
      fill(this.message, this.state.nodes.size >= MAX_NODES ? notice("warn", `The graph shows at most ${MAX_NODES} items: clear it to go elsewhere.`) : null);
      this.draw();
    } catch (error) {
      fill(this.message, notice("error", error.message));
    }
  }

  visibleEdges() {
    const { hidden, weight, origin } = this.filters;
    return [...this.state.edges.values()].filter((edge) => {
      const [source, target] = ends(edge);
      return this.state.nodes.has(source) && this.state.nodes.has(target) && !hidden.has(edge.type)
        && (edge.weight >= weight || edge.weight === 0)
        && (origin === "" || (origin === "automatic") === Boolean(edge.origin));
    });
  }

  draw() {
    const edges = this.visibleEdges();
    const linked = new Set(edges.flatMap(ends));
    const nodes = [...this.state.nodes].filter(([key]) => linked.has(key) || key === this.state.focus || this.state.expanded.has(key));
    if (!this.drawing) {
      const target = h("div", { class: "cy", role: "img", "aria-label": "Drawing of the links; the list beside it has the same links" });
      fill(this.canvas, target);
      this.drawing = drawGraph(target, { onselect: (key) => this.select(key), onexpand: (key) => this.expand([this.state.nodes.get(key)]) });
    }
    const path = session.path.map(keyOf);
    const colours = this.drawing.update(nodes, edges.map((edge) => ({ edge, ends: ends(edge) })), this.state.focus, path);
    this.drawLegend(colours, nodes.length, edges.length);
    if (this.state.focus) this.select(this.state.focus);
  }

  drawLegend(colours, nodes, edges) {
    fill(this.legend, h("strong", {}, `${plural(nodes, "item")}, ${plural(edges, "link")}`),
      [...colours].map(([type, colour]) => h("span", { class: "legend" }, h("span", { class: "dot", style: { background: colour } }), type || "no type")),
      h("span", { class: "legend" }, h("span", { class: "solid" }), "by people"), h("span", { class: "legend" }, h("span", { class: "dash" }), "automatic"));
    const types = [...new Set([...this.state.edges.values()].map((edge) => edge.type))].sort();
    const shown = new Set(types.filter((type) => !this.filters.hidden.has(type)));
    fill(this.typeBox, types.length > 1 ? checks("Types of links", types.map((value) => ({ value })), shown, () => {
      this.filters.hidden = new Set(types.filter((type) => !shown.has(type)));
      this.draw();
    }) : null);
    this.typeBox.firstChild?.classList.add("row");
  }

  select(key) {
    this.state.focus = key;
    this.drawing?.focus(key);
    const item = this.state.nodes.get(key);
    if (!item) return;
    const links = [...this.state.edges.values()].filter((edge) => ends(edge).includes(key)).sort((a, b) => b.weight - a.weight);
    fill(this.panel,
      h("div", {}, h("h2", { class: "break" }, item.title || item.id), h("p", { class: "small muted break" }, `${item.space} / ${item.id}`)),
      h("div", { class: "row" }, badge(item.kind), item.type ? badge(item.type, "accent") : null),
      item.snippet ? h("p", { class: "small break" }, item.snippet) : null,
      h("div", { class: "row" },
        h("button", { class: "small", disabled: this.state.expanded.has(key), onclick: () => this.expand([item]) }, "Follow its links"),
        h("a", { class: "button small", href: `#/knowledge?space=${encodeURIComponent(item.space)}&id=${encodeURIComponent(item.id)}` }, "Read")),
      session.mayWrite(item.space) ? this.addForm(item) : null,
      h("h3", {}, plural(links.length, "link")),
      h("ul", { class: "plain links-list" }, links.slice(0, 100).map((edge) => this.linkRow(edge, key))));
  }

  linkRow(edge, key) {
    const [source, target] = ends(edge);
    const other = source === key ? target : source;
    const item = this.state.nodes.get(other);
    const forbidden = edge.weight === 0;
    const verb = source === key ? `${edge.type} →` : `← ${edge.type}`;
    const change = (body, path, text) => async () => {
      try {
        await api(`/api/spaces/${encodeURIComponent(edge.space)}/${path}`, { body });
        this.state.edges.delete([...ends(edge), edge.type].join("\n"));
        toast(text);
        await this.expand([this.state.nodes.get(key)]);
      } catch (error) {
        toast(error.message);
      }
    };
    const reference = { source: edge.source, target: edge.target, type: edge.type, ...(edge.target_space ? { target_space: edge.target_space } : {}) };
    const action = !session.mayWrite(edge.space) ? null
      : forbidden ? h("button", { class: "small", onclick: change(reference, "edges/delete", "The link is allowed again.") }, "Allow")
      : edge.origin ? h("button", { class: "small", onclick: change({ ...reference, weight: 0 }, "edges", "The link is forbidden.") }, "Forbid")
      : h("button", { class: "small danger", onclick: change(reference, "edges/delete", "The link is deleted.") }, "Delete");
    return h("li", {},
      h("button", { class: "link break", onclick: () => this.select(other) }, item?.title || item?.id || other.split("\n")[1]),
      h("div", { class: "row between" }, h("span", { class: "small muted" }, `${verb} ${Number(edge.weight).toFixed(2)}`),
        h("span", { class: "row" }, badge(forbidden ? "forbidden" : edge.origin ? "automatic" : "by people", forbidden ? "bad" : edge.origin ? "" : "accent"), action)));
  }

  addForm(item) {
    let target = null;
    const picker = itemPicker({ placeholder: "Item to link to …", onpick: (picked) => { target = picked; } });
    const type = h("input", { value: "related", maxlength: 500 });
    const weight = h("input", { type: "number", min: 0.05, max: 1, step: 0.05, value: 1 });
    const box = field("To", picker.input, { name: "target" });
    box.append(picker.element.querySelector("ul"));
    box.classList.add("suggest");
    const rest = h("div", {});
    const form = h("form", { class: "stack", onsubmit: async (event) => {
      event.preventDefault();
      fill(rest);
      if (!target) return showFieldErrors(form, { fields: [{ field: "target", message: "choose one of the suggested items" }] });
      const body = { source: item.id, target: target.id, type: type.value, weight: Number(weight.value) };
      if (target.space !== item.space) body.target_space = target.space;
      try {
        await api(`/api/spaces/${encodeURIComponent(item.space)}/edges`, { body });
        toast("The link is stored.");
        await this.expand([item]);
      } catch (error) {
        const others = showFieldErrors(form, error);
        fill(rest, others.length ? notice("error", others.join(" ")) : null);
      }
      return null;
    } }, box, h("div", { class: "grid-form" }, field("Type", type, { name: "type" }), field("Weight", weight, { name: "weight" })), rest,
    h("div", { class: "row end" }, h("button", { class: "small primary" }, "Add link")));
    return h("details", {}, h("summary", {}, "Add a link"), form);
  }
}
