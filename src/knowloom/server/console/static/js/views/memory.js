// Memory: the conversations of a workspace on a time line; remember, forget, pin, supersede, recall.

import { api, itemPath } from "../api.js";
import { debounce, fill, h, plural, time } from "../dom.js";
import { session } from "../session.js";
import { badge, busy, dialog, empty, field, notice, select, showFieldErrors, toast } from "../widgets.js";

const PAGE = 500;
const SUPERSEDED = "knowloom:superseded";
let workspace = "";

export function show(main) {
  const page = new MemoryPage();
  fill(main, page.element);
  page.load();
}

class MemoryPage {
  constructor() {
    const names = session.spaces.map((space) => space.name);
    if (!names.includes(workspace)) workspace = names[0] ?? "default";
    this.conversation = "";
    this.line = h("div", { class: "stack" });
    this.conversations = h("div", {});
    this.recalled = h("div", { class: "stack" }, h("p", { class: "muted small" }, "Type a question to see what an agent would recall."));
    const choose = h("input", { value: workspace, list: "workspaces", onchange: () => { workspace = choose.value.trim() || workspace; this.conversation = ""; this.load(); } });
    const query = h("input", { placeholder: "What would be recalled for …", oninput: debounce(() => this.recall(query.value), 300) });
    this.element = h("div", { class: "stack" },
      h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Memory"), h("p", {}, "What was learned in conversations, in the order of time.")),
        session.mayWrite() ? h("button", { class: "primary", onclick: () => this.rememberDialog() }, "Remember") : null),
      h("div", { class: "card grid-form" }, field("Workspace", choose, { name: "workspace" }), this.conversations,
        h("datalist", { id: "workspaces" }, names.map((name) => h("option", { value: name })))),
      h("div", { class: "split" }, this.line,
        h("section", { class: "card stack", "aria-label": "Preview of a recall" }, h("h2", {}, "Preview"), field("Question", query, { name: "query" }), this.recalled)));
  }

  async load() {
    fill(this.line, busy("Loading the memories …"));
    this.memories = [];
    try {
      let after = null;
      do {
        const { items } = await api("/api/page", { body: { spaces: [workspace], kinds: ["memory"], limit: PAGE, ...(after ? { after } : {}) } });
        this.memories.push(...items);
        const last = items.at(-1);
        after = items.length === PAGE ? { space: last.space, id: String(last.id) } : null;
      } while (after && this.memories.length < 5000);
      this.draw();
    } catch (error) {
      fill(this.line, error.status === 404 ? this.nothing() : notice("error", error.message));
    }
  }

  nothing() {
    return empty(`No memories in ${workspace}`, session.mayWrite(workspace) ? "Remember something, or let an agent call POST /api/memory/remember." : "An agent stores them with POST /api/memory/remember.",
      session.mayWrite(workspace) ? h("button", { onclick: () => this.rememberDialog() }, "Remember") : null);
  }

  draw() {
    const names = [...new Set(this.memories.map((item) => item.subject).filter(Boolean))].sort();
    fill(this.conversations, field("Conversation", select([["", "all"], ...names.map((name) => [name, name])], this.conversation, (value) => { this.conversation = value; this.draw(); }), {}));
    const shown = this.memories.filter((item) => !this.conversation || item.subject === this.conversation).sort((a, b) => (b.created_at ?? "").localeCompare(a.created_at ?? "") || String(a.id).localeCompare(String(b.id)));
    if (!shown.length) {
      fill(this.line, this.nothing());
      return;
    }
    const days = Map.groupBy ? Map.groupBy(shown, dayOf) : group(shown);
    fill(this.line, h("p", { class: "muted small" }, plural(shown.length, "memory").replace("memorys", "memories")),
      [...days].map(([day, items]) => h("section", { class: "stack", "aria-label": day }, h("h2", {}, day), h("ol", { class: "plain timeline" }, items.slice(0, 500).map((item) => this.moment(item))))));
  }

  moment(item) {
    const isPinned = (item.tags ?? []).includes("pinned");
    const successor = item.properties?.[SUPERSEDED]?.by;
    const isPast = successor || (item.valid_to && new Date(item.valid_to) < new Date());
    const may = session.mayWrite(workspace);
    return h("li", { class: `moment${isPinned ? " pinned" : ""}${isPast ? " past" : ""}` },
      h("p", { class: "break" }, item.title && item.text ? h("strong", {}, `${item.title}: `) : null, item.text || item.summary || item.title),
      h("div", { class: "row small muted" }, time(item.created_at), item.type ? badge(item.type) : null, item.subject ? badge(item.subject) : null, isPinned ? badge("pinned", "accent") : null,
        successor ? badge(`superseded by ${successor}`, "warn") : isPast ? badge("expired", "warn") : null),
      may ? h("div", { class: "row" },
        h("button", { class: "small", "aria-pressed": String(isPinned), onclick: () => this.pin(item, !isPinned) }, isPinned ? "Pinned" : "Pin"),
        successor ? null : h("button", { class: "small", onclick: () => this.rememberDialog(item) }, "Supersede"),
        h("button", { class: "small danger", onclick: () => this.forget(item) }, "Forget")) : null);
  }

  async pin(item, pinned) {
    const tags = (item.tags ?? []).filter((tag) => tag !== "pinned");
    try {
      const stored = await api(itemPath(item.space, item.id));
      const { space: _, ...body } = stored;
      await api(itemPath(item.space, item.id), { method: "PUT", body: { ...body, tags: pinned ? [...tags, "pinned"] : tags } });
      toast(pinned ? "Pinned: every recall begins with it." : "No longer pinned.");
      this.load();
    } catch (error) {
      toast(error.message);
    }
  }

  async forget(item) {
    try {
      await api("/api/memory/delete", { body: { workspace, ids: [String(item.id)] } });
      this.load();
      toast("Forgotten.", { text: "Undo", run: () => api("/api/restore", { body: { space: workspace, id: String(item.id) } }).then(() => this.load(), (error) => toast(error.message)) });
    } catch (error) {
      toast(error.message);
    }
  }

  rememberDialog(superseded = null) {
    const content = h("textarea", { rows: 4, required: true, value: superseded ? superseded.text ?? "" : "" });
    const type = h("input", { value: superseded?.type ?? "", placeholder: "fact, decision, …" });
    const conversation = h("input", { value: superseded?.subject ?? this.conversation });
    const speaker = h("input", {});
    const pinned = h("input", { type: "checkbox" });
    const rest = h("div", {});
    const form = h("form", { class: "stack", onsubmit: async (event) => {
      event.preventDefault();
      const body = { workspace, content: content.value, type: type.value, speaker: speaker.value, pinned: pinned.checked };
      if (conversation.value) body.conversation = conversation.value;
      if (superseded) body.supersedes = [String(superseded.id)];
      try {
        await api("/api/memory/remember", { body });
        close();
        toast("Remembered.");
        this.load();
      } catch (error) {
        const others = showFieldErrors(form, error);
        fill(rest, others.length ? notice("error", others.join(" ")) : null);
      }
    } }, superseded ? notice("note", "The old memory stays in the history, and is no longer recalled.") : null,
    field("Memory", content, { name: "content" }), h("div", { class: "grid-form" }, field("Type", type, { name: "type" }), field("Conversation", conversation, { name: "conversation" }), field("Speaker", speaker, { name: "speaker" })),
    h("label", { class: "check" }, pinned, "Pin it"), rest, h("div", { class: "row end" }, h("button", { class: "primary" }, superseded ? "Supersede" : "Remember")));
    const close = dialog(superseded ? "Supersede a memory" : `Remember in ${workspace}`, form);
  }

  async recall(query) {
    if (!query.trim()) return;
    fill(this.recalled, busy("Recalling …"));
    try {
      const found = await api("/api/memory/preview", { body: { workspace, query, token_budget: 1000, ...(this.conversation ? { conversation_id: this.conversation } : {}) } });
      const scores = found.ranking_scores ?? {};
      fill(this.recalled, found.context ? h("pre", { class: "code" }, found.context) : h("p", { class: "muted" }, "Nothing would be recalled."),
        h("p", { class: "small muted" }, `${found.token_count} tokens, ${plural(Object.keys(scores).length, "candidate")}`),
        h("ul", { class: "plain links-list" }, Object.entries(scores).sort((a, b) => b[1] - a[1]).slice(0, 10).map(([id, score]) => h("li", {}, h("span", { class: "break small" }, this.memories.find((item) => String(item.id) === id)?.text ?? id), h("span", { class: "num small muted" }, `rank ${Number(score).toFixed(3)}`)))),
        (found.left_out ?? []).map((entry) => h("p", { class: "small muted break" }, `Left out: ${entry.id}: ${entry.reason}`)));
    } catch (error) {
      fill(this.recalled, notice("error", error.message));
    }
  }
}

const dayOf = (item) => (item.created_at ? new Date(item.created_at).toLocaleDateString(undefined, { dateStyle: "full" }) : "Without a date");

function group(items) {
  const days = new Map();
  for (const item of items) days.set(dayOf(item), [...(days.get(dayOf(item)) ?? []), item]);
  return days;
}
