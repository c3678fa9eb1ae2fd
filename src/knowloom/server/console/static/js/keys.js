// The keys of the server: make one, see its secret once, revoke.

import { api } from "./api.js";
import { fill, h, time } from "./dom.js";
import { session } from "./session.js";
import { badge, confirm, copy, dialog, field, notice, select, showFieldErrors, toast } from "./widgets.js";

const ROLES = [["viewer", "viewer: reads"], ["editor", "editor: reads and writes"], ["admin", "admin: also maintains"]];

export function keysCard() {
  const body = h("div", { class: "stack" });
  async function load() {
    try {
      const { keys, open } = await api("/api/keys");
      fill(body, open ? notice("warn", "This server has no keys: every program on this machine can read and write. Run “knowloom keys add NAME --write '*' --role admin” and restart the server.") : table(keys));
    } catch (error) {
      fill(body, notice("error", error.message));
    }
  }
  const table = (keys) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Keys" }, h("table", {}, h("thead", {}, h("tr", {}, ["Name", "Role", "Reads", "Writes", "Since", ""].map((head) => h("th", {}, head)))),
    h("tbody", {}, keys.map((key) => h("tr", {}, h("td", {}, key.name, h("div", { class: "small muted mono" }, key.id)), h("td", {}, badge(key.role)), h("td", {}, key.reads.join(", ") || "–"), h("td", {}, key.writes.join(", ") || "–"), h("td", {}, time(key.created_at)),
      h("td", {}, key.revoked_at ? badge("revoked", "bad") : h("button", { class: "small danger", onclick: () => revoke(key) }, "Revoke")))))));

  async function revoke(key) {
    const own = key.id === session.rights.id ? " It is the key of this page." : "";
    if (!await confirm(`Revoke ${key.name}?`, `Programs that use it are refused at once, for good.${own}`, "Revoke")) return;
    await api(`/api/keys/${encodeURIComponent(key.id)}/revoke`, { method: "POST" }).then(() => toast("Revoked."), (error) => toast(error.message));
    load();
  }

  function create() {
    const name = h("input", { required: true, maxlength: 500 });
    const reads = h("input", { placeholder: "spaces, separated by commas; * for all" }), writes = h("input", { placeholder: "spaces, separated by commas; * for all" });
    let role = "viewer";
    const rest = h("div", {});
    const names = (input) => input.value.split(",").map((each) => each.trim()).filter(Boolean);
    const form = h("form", { class: "stack", onsubmit: async (event) => {
      event.preventDefault();
      try {
        const key = await api("/api/keys", { body: { name: name.value, role, reads: names(reads), writes: names(writes), tier: session.rights.tier } });
        fill(form, notice("warn", "Copy the secret now: it is not stored and cannot be shown again."), h("pre", { class: "code", "data-secret": "" }, key.secret), h("div", { class: "row end" }, h("button", { type: "button", onclick: () => copy(key.secret) }, "Copy"), h("button", { type: "button", class: "primary", onclick: () => close() }, "Done")));
        load();
      } catch (error) {
        const others = showFieldErrors(form, error);
        fill(rest, others.length ? notice("error", others.join(" ")) : null);
      }
    } }, field("Name", name, { name: "name" }), field("Role", select(ROLES, role, (value) => { role = value; }), { name: "role" }), field("May read", reads, { name: "reads" }), field("May read and write", writes, { name: "writes" }), rest, h("div", { class: "row end" }, h("button", { class: "primary" }, "Create")));
    const close = dialog("New key", form);
  }

  load();
  return h("section", { class: "card stack", "aria-label": "Keys" }, h("div", { class: "row between" }, h("h2", {}, "Keys"), session.rights.open ? null : h("button", { class: "primary", onclick: create }, "New key")), body);
}
