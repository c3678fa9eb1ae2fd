// The playground: a question, its settings, the context, and the reason for every line.

import { api } from "../api.js";
import { blockDetails, contextText, leftOutList, tokenBar } from "../blocks.js";
import { compareView } from "../compare.js";
import { debounce, fill, h, plural } from "../dom.js";
import { session } from "../session.js";
import { copySettings, defaultSettings, settingsForm, toRequest } from "../settings.js";
import { SNIPPETS } from "../snippets.js";
import { busy, copy, clearFieldErrors, dialog, empty, field, notice, showFieldErrors, tabs } from "../widgets.js";

const PAUSE_MS = 300;
let kept = null; // the settings, while another view is open

export function show(main, params) {
  if (!session.spaces.length) {
    fill(main, h("h1", {}, "Playground"), empty("Nothing is stored yet", "Drop files in the Knowledge view, or run: knowloom load FOLDER. Then ask a question here.",
      session.mayWrite() ? h("a", { class: "button", href: "#/knowledge?add=1" }, "Add files") : null));
    return null;
  }
  kept ??= { a: defaultSettings(), b: null };
  const known = new Set(session.spaces.map((space) => space.name));
  for (const settings of [kept.a, kept.b]) {
    if (settings) settings.spaces = new Set([...settings.spaces].filter((name) => known.has(name)));
  }
  if (params.get("query")) kept.a.query = params.get("query");
  if (params.get("item")) kept.a.ids = [params.get("item")];
  const page = new Playground(kept);
  fill(main, page.element);
  page.refresh();
  const retry = () => page.refresh();
  addEventListener("serverback", retry);
  return { leave: () => { removeEventListener("serverback", retry); page.abort(); } };
}

class Playground {
  constructor(state) {
    this.state = state;
    this.refreshSoon = debounce(() => this.refresh(), PAUSE_MS);
    this.query = h("textarea", { rows: 2, placeholder: "Ask what an agent would ask, such as: How do I process a refund?", value: state.a.query, maxlength: 100000,
      oninput: () => { state.a.query = this.query.value; if (state.b) state.b.query = this.query.value; this.refreshSoon(); } });
    this.ids = h("input", { value: state.a.ids.join(", "), placeholder: "ids, separated by commas",
      oninput: () => { state.a.ids = this.ids.value.split(",").map((id) => id.trim()).filter(Boolean); this.refreshSoon(); } });
    this.form = h("div", { class: "stack" });
    const isWide = matchMedia("(min-width: 861px)").matches;
    this.settings = h("details", { class: "card settings", open: isWide }, h("summary", {}, "Settings"), this.form);
    this.result = h("div", { class: "stack result" });
    this.details = h("section", { class: "card details", "aria-label": "Why this block" });
    this.leftOut = h("section", { class: "card", "aria-label": "Left out" });
    this.side = h("div", { class: "stack side" }, this.details, this.leftOut);
    this.columns = h("div", { class: "playground" }, this.settings, this.result, this.side);
    this.comparing = h("button", { "aria-pressed": String(Boolean(state.b)), onclick: () => this.toggleCompare() }, "Compare two settings");
    this.element = h("div", { class: "stack" },
      h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Playground"), h("p", {}, "See the context of a question, why every line is in it, and what was left out.")),
        h("div", { class: "row" }, this.comparing, h("button", { onclick: () => this.showSnippets() }, "Copy as code"))),
      h("div", { class: "card ask" }, field("Question", this.query, { name: "query" })), this.columns);
    this.drawForm();
  }

  drawForm() {
    const { a, b } = this.state;
    const change = () => this.refreshSoon();
    fill(this.form,
      b ? h("h2", {}, "Settings A") : null, settingsForm(a, change),
      b ? h("h2", {}, "Settings B") : null, b ? settingsForm(b, change, { compact: true }) : null,
      b ? null : field("Why is an item missing?", this.ids, { name: "ids" }));
  }

  toggleCompare() {
    const { state } = this;
    state.b = state.b ? null : copySettings(state.a);
    this.comparing.setAttribute("aria-pressed", String(Boolean(state.b)));
    this.drawForm();
    this.refresh();
  }

  abort() {
    this.controller?.abort();
  }

  async refresh() {
    this.abort();
    const { a, b } = this.state;
    this.side.hidden = Boolean(b) || !a.query.trim();
    this.columns.classList.toggle("comparing", Boolean(b));
    if (!a.query.trim()) {
      fill(this.result, empty("Ask a question", "The context appears while you type, with its tokens, scores and sources.",
        ...EXAMPLES.map((text) => h("button", { class: "small", onclick: () => this.ask(text) }, text))));
      return;
    }
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.result.setAttribute("aria-busy", "true");
    if (!this.result.querySelector(".context-text, .compare")) fill(this.result, busy("Building the context …"));
    try {
      if (b) b.spaces = new Set(a.spaces);
      if (b) await this.drawComparison(signal);
      else this.drawContext(await api("/api/explain", { body: toRequest(a), signal }));
      clearFieldErrors(this.element);
    } catch (error) {
      if (error.name !== "AbortError") this.drawError(error);
    } finally {
      if (!signal.aborted) this.result.removeAttribute("aria-busy");
    }
  }

  ask(text) {
    this.query.value = this.state.a.query = text;
    this.refresh();
  }

  async drawComparison(signal) {
    const { a, b } = this.state;
    b.query = a.query;
    const before = await api("/api/explain", { body: { ...toRequest(a), remedies: false }, signal });
    const after = await api("/api/explain", { body: { ...toRequest(b), remedies: false }, signal });
    const body = { before_context: stripTimes(before), after_context: stripTimes(after) };
    fill(this.result, compareView(before, after, await api("/api/diff", { body, signal })));
  }

  drawContext(context) {
    const total = Object.values(context.timings_ms ?? {}).reduce((sum, ms) => sum + ms, 0);
    const facts = [
      context.confidence === null ? "" : `confidence ${Math.round(context.confidence * 100)} %`,
      `${plural(context.stats.searched, "item")} searched`, `${total.toFixed(0)} ms`, `counted by ${context.stats.token_counter}`];
    const notes = context.degraded.map((problem) => notice(problem.severity === "failure" ? "error" : "warn", `${problem.part}: ${problem.reason}`));
    const text = context.text
      ? contextText(context, (entry) => fill(this.details, blockDetails(entry, context)))
      : empty("The context is empty", context.left_out.length ? "Nothing fits. Raise the budget, or use a button on the right." : "No item matches. Try other words or more spaces.");
    fill(this.result, notes, h("div", { class: "card stack" }, tokenBar(context), text,
      h("div", { class: "row between small muted" }, h("span", {}, facts.filter(Boolean).join(" · ")),
        h("button", { class: "small", onclick: () => copy(context.text) }, "Copy the text"))));
    const first = context.fragments.flatMap((fragment) => fragment.chosen)[0];
    if (first) fill(this.details, h("p", { class: "muted small" }, "Point at a block, or move to it with Tab."), blockDetails(first, context));
    else fill(this.details, h("p", { class: "muted" }, "Point at a block to see why it is there."));
    fill(this.leftOut, h("h2", {}, `Left out (${context.left_out.length})`), leftOutList(context, (remedy) => this.apply(remedy)));
  }

  apply(remedy) {
    remedy.apply(this.state.a);
    this.drawForm();
    this.refresh();
  }

  drawError(error) {
    const rest = showFieldErrors(this.element, error);
    if (error.code === "unknown_space" || error.status === 404) rest.push("A space was deleted meanwhile: choose others.");
    this.side.hidden = true;
    fill(this.result, notice("error", rest.length ? rest.join(" ") : "The request was refused: see the marked field."));
  }

  showSnippets() {
    const body = toRequest(this.state.a);
    dialog("Copy as code", tabs("Language", SNIPPETS.map(([name, write]) => [name, () => {
      const code = write(body);
      return [h("pre", { class: "code" }, code), h("div", { class: "row end" }, h("button", { class: "primary", onclick: () => copy(code) }, "Copy"))];
    }])));
  }
}

const EXAMPLES = ["How does this work?", "What are the limits?"];

function stripTimes({ timings_ms: _, ...context }) {
  return context;
}
