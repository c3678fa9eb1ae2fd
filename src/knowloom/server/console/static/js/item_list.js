// A long list of items of which only the visible rows exist; further pages load while scrolling.

import { fill, h, plural } from "./dom.js";
import { busy } from "./widgets.js";

const ROW = 64, MARGIN = 8, PAGE = 500;

/** `load(after, limit)` returns {items, next}; `address(item)` is the link of a row. */
export function itemList({ load, address, isCurrent, onload }) {
  let items = [], next = null, loading = false, generation = 0, current = "";
  const rows = h("div", { class: "list-rows", role: "list" });
  const status = h("div", { class: "pad small muted" });
  const box = h("div", { class: "card flush list-box", tabindex: "0", role: "region", "aria-label": "Items", onscroll: () => { draw(); loadMore(); } }, rows, status);
  const observer = new ResizeObserver(() => draw());
  observer.observe(box);

  async function reset() {
    generation += 1;
    items = [];
    next = null;
    box.scrollTop = 0;
    fill(rows);
    await fetchPage(generation);
  }

  async function fetchPage(mine) {
    loading = true;
    fill(status, busy(items.length ? "Loading more items …" : "Loading the items …"));
    try {
      const page = await load(next, PAGE);
      if (mine !== generation) return;
      items = items.concat(page.items);
      next = page.next;
      fill(status, next ? `${plural(items.length, "item")} so far; scroll for more.` : plural(items.length, "item"));
      onload?.(items, next);
      draw();
    } catch (error) {
      if (mine === generation) fill(status, h("span", { class: "field-error" }, error.message, " "), h("button", { class: "small", onclick: () => fetchPage(generation) }, "Try again"));
    } finally {
      loading = false;
    }
    loadMore();
  }

  function loadMore() {
    const left = items.length * ROW - box.scrollTop - box.clientHeight;
    if (next && !loading && left < 20 * ROW && box.isConnected) fetchPage(generation);
  }

  function draw() {
    rows.style.height = `${items.length * ROW}px`;
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - MARGIN);
    const last = Math.min(items.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + MARGIN);
    const focused = document.activeElement?.closest?.(".list-row")?.dataset.index;
    fill(rows, items.slice(first, last).map((item, offset) => row(item, first + offset)));
    if (focused !== undefined) rows.querySelector(`[data-index="${focused}"]`)?.focus({ preventScroll: true });
  }

  function row(item, index) {
    return h("div", { role: "listitem", "aria-setsize": next ? -1 : items.length, "aria-posinset": index + 1 },
      h("a", { class: "list-row", href: address(item), "data-index": index, "aria-current": isCurrent?.(item) ? "true" : null, style: { top: `${index * ROW}px` } },
        h("span", { class: "title clip" }, item.title || item.id),
        h("span", { class: "small muted clip" }, [item.space, item.type || item.kind, item.snippet].filter(Boolean).join(" · "))));
  }

  return { element: box, reset, draw, remove(item) { items = items.filter((each) => each.space !== item.space || each.id !== item.id); draw(); }, get items() { return items; }, set current(value) { current = value; draw(); }, get current() { return current; } };
}
