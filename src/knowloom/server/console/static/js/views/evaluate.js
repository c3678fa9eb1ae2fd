// Evaluate: questions with expected items, one or two configurations, measures and what got worse.

import { stream } from "../api.js";
import { changeChart, measureChart } from "../charts.js";
import { fill, h, plural } from "../dom.js";
import { marks, session } from "../session.js";
import { badge, checks, empty, field, notice, select, showFieldErrors } from "../widgets.js";

const MODES = [["", "as the recipe says"], ["hybrid", "words and vectors"], ["bm25", "words only"], ["vector", "vectors only"], ["walk", "walk along links"]];
const EXAMPLE = '{"question": "How long do refunds take?", "expected": ["refund-times"]}';
const kept = { text: "", spaces: null, a: { mode: "", depth: "", source: "" }, b: { mode: "bm25", depth: "", source: "" }, compare: false, result: null };

export function show(main) {
  kept.spaces ??= new Set(session.spaces.map((space) => space.name));
  const page = new EvaluatePage(kept);
  fill(main, page.element);
  return { leave: () => page.controller?.abort() };
}

class EvaluatePage {
  constructor(state) {
    this.state = state;
    this.text = h("textarea", { rows: 8, class: "mono", placeholder: EXAMPLE, value: state.text, oninput: () => { state.text = this.text.value; this.drawCount(); } });
    this.countLine = h("p", { class: "small muted" });
    const file = h("input", { type: "file", accept: ".jsonl,.json,.ndjson,.txt", class: "sr", tabindex: "-1", "aria-hidden": "true", onchange: async () => { this.setText(await file.files[0].text()); file.value = ""; } });
    this.markBox = h("div", { class: "row" });
    this.message = h("div", {});
    this.result = h("div", { class: "stack" });
    this.b = h("div", { hidden: !state.compare }, h("h3", {}, "Configuration B"), this.configuration(state.b));
    const compare = h("input", { type: "checkbox", checked: state.compare, onchange: () => { state.compare = compare.checked; this.b.hidden = !compare.checked; } });
    this.run = h("button", { class: "primary", onclick: () => this.start() }, "Run");
    this.element = h("div", { class: "stack" },
      h("div", { class: "view-head" }, h("div", {}, h("h1", {}, "Evaluate"), h("p", {}, "Measure retrieval on questions whose answers you know, and see which questions a change makes worse."))),
      h("div", { class: "split" },
        h("section", { class: "card stack", "aria-label": "Questions" }, h("h2", {}, "Questions"),
          field("One object per line", this.text, { name: "questions", hint: `Such as ${EXAMPLE}` }), this.countLine,
          h("div", { class: "row" }, h("button", { onclick: () => file.click() }, "Open a file"), file, this.markBox)),
        h("section", { class: "card stack", "aria-label": "Configurations" }, h("h2", {}, "Configuration"), this.configuration(state.a),
          h("label", { class: "check" }, compare, "Compare with another configuration"), this.b,
          checks("Spaces", session.spaces.map((space) => ({ value: space.name })), state.spaces, () => {}, { name: "spaces" }),
          this.message, h("div", { class: "row end" }, this.run))),
      this.result);
    this.drawCount();
    this.drawMarks();
    if (state.result) this.drawResult(state.result);
    else fill(this.result, empty("No run yet", "Write questions, open a file, or mark right answers in the playground; then run."));
  }

  configuration(settings) {
    const sources = [["", "default"], ...session.recipes.map((name) => [`recipe:${name}`, `Recipe: ${name}`]), ...session.agents.map((agent) => [`agent:${agent.name}`, `Agent: ${agent.name}`])];
    const depth = h("input", { type: "number", min: 0, max: 10, value: settings.depth, placeholder: "as the recipe says", oninput: () => { settings.depth = depth.value; } });
    return h("div", { class: "grid-form" }, field("Search", select(MODES, settings.mode, (value) => { settings.mode = value; }), { name: "mode" }),
      field("Recipe or agent", select(sources, settings.source, (value) => { settings.source = value; }), { name: "recipe" }), field("Depth of links", depth, { name: "depth" }));
  }

  setText(text) {
    this.text.value = this.state.text = text;
    this.drawCount();
  }

  drawCount() {
    const lines = this.state.text.split("\n").filter((line) => line.trim());
    this.countLine.textContent = lines.length ? plural(lines.length, "question") : "No questions yet.";
  }

  drawMarks() {
    const rows = marks.rows();
    fill(this.markBox, rows.length ? [
      h("button", { onclick: () => this.useMarks() }, `Use ${plural(rows.length, "marked question")}`),
      h("a", { class: "button", download: "questions.jsonl", href: `data:application/x-ndjson;charset=utf-8,${encodeURIComponent(toLines(rows))}` }, "Download them"),
      h("button", { class: "quiet", onclick: () => { marks.save([]); this.drawMarks(); } }, "Forget the marks")]
      : h("span", { class: "small muted" }, "Answers that you mark in the playground appear here."));
  }

  useMarks() {
    this.setText([this.state.text.trim(), toLines(marks.rows())].filter(Boolean).join("\n"));
  }

  async start() {
    const { state } = this;
    fill(this.message);
    let questions;
    try {
      questions = state.text.split("\n").map((line, index) => [line, index]).filter(([line]) => line.trim()).map(([line, index]) => {
        try {
          return JSON.parse(line);
        } catch (error) {
          throw new Error(`line ${index + 1} is not JSON: ${error.message}`);
        }
      });
      if (!questions.length) throw new Error(`write at least one question, such as ${EXAMPLE}`);
    } catch (error) {
      showFieldErrors(this.element, { fields: [{ field: "questions", message: error.message }] });
      return;
    }
    const configurations = [toConfiguration("A", state.a), ...(state.compare ? [toConfiguration("B", state.b)] : [])];
    this.controller = new AbortController();
    this.run.disabled = true;
    const fillBar = h("div", {}), line = h("p", { class: "small muted", role: "status" }, "Starting …");
    fill(this.result, h("div", { class: "card stack" }, h("div", { class: "bar" }, fillBar), line, h("div", { class: "row end" }, h("button", { class: "small", onclick: () => this.controller.abort() }, "Stop"))));
    try {
      await stream("/api/evaluate", { body: { questions, spaces: [...state.spaces], configurations }, signal: this.controller.signal }, (row) => {
        if (row.progress) {
          fillBar.style.width = `${(100 * row.progress.done) / row.progress.total}%`;
          line.textContent = `Configuration ${row.progress.stage}: ${row.progress.done} of ${row.progress.total} questions`;
        } else if (row.error) throw Object.assign(new Error(row.error.detail), row.error);
        else state.result = row.result;
      });
      showFieldErrors(this.element, null);
      this.drawResult(state.result);
    } catch (error) {
      fill(this.result, error.name === "AbortError" ? notice("warn", "Stopped.") : null);
      if (error.name !== "AbortError") {
        const rest = showFieldErrors(this.element, error);
        fill(this.message, rest.length ? notice("error", rest.join(" ")) : null);
      }
    } finally {
      this.run.disabled = false;
    }
  }

  drawResult({ configurations, comparison }) {
    const names = h("div", { class: "row small" }, configurations.map((each, index) => h("span", { class: "legend" }, h("span", { class: "dot", style: { background: `var(--p${index})` } }), `${each.name}: ${describe(each.options)}`)));
    const latency = configurations.map((each) => `${each.name}: ${Object.entries(each.latency_ms).map(([call, ms]) => `${call} ${ms.p50.toFixed(1)} ms`).join(", ")}`);
    fill(this.result,
      comparison ? notice(!comparison.real ? "note" : comparison.worse.length > comparison.better.length ? "warn" : "good", comparison.verdict) : null,
      h("section", { class: "card stack", "aria-label": "Measures" }, h("h2", {}, `Measures over ${plural(configurations[0].questions, "question")}`), names, measureChart(configurations), h("p", { class: "small muted" }, `Lines are 95 % intervals. Median times: ${latency.join("; ")}.`),
        configurations.flatMap((each) => each.problems).map((problem) => notice("warn", problem))),
      comparison ? this.changes(comparison) : this.answers(configurations[0]));
  }

  changes(comparison) {
    const all = [...comparison.worse, ...[...comparison.better].reverse()];
    return h("section", { class: "card stack", "aria-label": "Questions that changed" }, h("h2", {}, `${plural(comparison.worse.length, "question")} got worse, ${comparison.better.length} better (${comparison.headline})`),
      all.length ? changeChart(all) : h("p", { class: "muted" }, "No question changed."),
      comparison.worse.length ? questionTable("Worse", comparison.worse) : null, comparison.better.length ? questionTable("Better", comparison.better) : null);
  }

  answers(configuration) {
    const rows = configuration.answers.map((answer) => ({ question: answer.question, after: answer.expected }));
    return h("section", { class: "card stack", "aria-label": "Answers" }, h("h2", {}, "Places of the expected items"), questionTable("Questions", rows));
  }
}

const toLines = (rows) => rows.map((row) => JSON.stringify(row)).join("\n");
const describe = (options) => Object.entries(options).map(([name, value]) => `${name} ${value}`).join(", ") || "default";

function toConfiguration(name, { mode, depth, source }) {
  const options = {};
  if (mode) options.mode = mode;
  if (depth !== "") options.depth = Number(depth);
  if (source) options[source.split(":")[0]] = source.split(/:(.*)/s)[1];
  return { name, options };
}

function questionTable(title, rows) {
  const places = (items) => (items ?? []).map((item) => h("div", {}, badge(item.place ? `#${item.place}` : "not found", item.place ? "" : "bad"), " ", h("a", { href: `#/knowledge?space=${encodeURIComponent(item.space)}&id=${encodeURIComponent(item.id)}` }, item.id)));
  const paired = rows.some((row) => row.before);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, title), paired ? h("th", {}, "A") : null, h("th", {}, paired ? "B" : "Expected items"), paired ? h("th", { class: "num" }, "Change") : null)),
    h("tbody", {}, rows.slice(0, 200).map((row) => h("tr", {}, h("td", {}, h("a", { href: `#/playground?query=${encodeURIComponent(row.question)}` }, row.question)), paired ? h("td", {}, places(row.before)) : null, h("td", {}, places(row.after)), paired ? h("td", { class: "num" }, row.by.toFixed(3)) : null)))));
}
