// A box to find an item by its words, with suggestions below.

import { api } from "./api.js";
import { debounce, fill, h } from "./dom.js";

let lastId = 0;

/** Return a combobox; `onpick` is called with {space, id, title}. */
export function itemPicker({ placeholder = "Find an item …", spaces = null, onpick }) {
  const id = `picker${++lastId}`;
  let rows = [], current = -1;
  const list = h("ul", { role: "listbox", id: `${id}-list`, hidden: true, "aria-label": "Items" });
  const input = h("input", { role: "combobox", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list", autocomplete: "off", placeholder,
    oninput: () => suggest(), onblur: () => setTimeout(close, 150),
    onkeydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); move(event.key === "ArrowDown" ? 1 : -1); }
      else if (event.key === "Enter" && rows.length) { event.preventDefault(); pick(rows[Math.max(0, current)]); }
      else if (event.key === "Escape") close();
    } });

  const suggest = debounce(async () => {
    const query = input.value.trim();
    if (!/[\p{L}\p{N}]/u.test(query)) return close();
    const body = { query, limit: 8, mode: "hybrid" };
    const wanted = spaces?.();
    body.spaces = wanted ?? (await import("./session.js")).session.spaces.map((space) => space.name).slice(0, 200);
    try {
      const { hits } = await api("/api/search", { body });
      rows = hits.map((hit) => hit.item);
      current = -1;
      draw();
    } catch {
      close();
    }
    return null;
  }, 200);

  function draw() {
    fill(list, rows.length ? rows.map((item, index) => h("li", { role: "option", id: `${id}-${index}`, "aria-selected": String(index === current),
      onmousedown: (event) => { event.preventDefault(); pick(item); } },
    item.title || item.id, h("span", { class: "muted small" }, ` ${item.space} / ${item.id}`))) : h("li", { role: "option", "aria-disabled": "true", class: "muted" }, "No item matches."));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (current >= 0) input.setAttribute("aria-activedescendant", `${id}-${current}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function move(step) {
    if (!rows.length) return;
    current = (current + step + rows.length) % rows.length;
    draw();
  }

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  }

  function pick(item) {
    close();
    input.value = item.title || String(item.id);
    onpick({ space: item.space, id: String(item.id), title: item.title });
  }

  return { element: h("div", { class: "suggest" }, input, list), input };
}
