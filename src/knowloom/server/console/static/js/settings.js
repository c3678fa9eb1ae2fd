// The settings of a context: their form, and the request that they stand for.

import { h, count } from "./dom.js";
import { session } from "./session.js";
import { checks, field, select } from "./widgets.js";

const MIN_BUDGET = 50, MAX_BUDGET = 32000, STEPS = 200;
const FORMATS = ["markdown", "yaml", "json", "plain"];
const MODES = [["", "as the recipe says"], ["hybrid", "words and vectors"], ["bm25", "words only"], ["vector", "vectors only"], ["walk", "walk along links"]];

export function defaultSettings() {
  return {
    query: "", spaces: new Set(session.spaces.slice(0, 200).map((space) => space.name)), max_tokens: 1000,
    format: "markdown", source: "recipe:knowledge", mode: "", depth: "", limit: "", min_score: "", as_of: "",
    citations: false, paths: false, ids: [],
  };
}

export function copySettings(settings) {
  return { ...settings, spaces: new Set(settings.spaces), ids: [...settings.ids] };
}

/** The body of POST /api/explain. */
export function toRequest(settings) {
  const [kind, name] = settings.source.split(/:(.*)/s);
  const body = { query: settings.query, spaces: [...settings.spaces].sort(), max_tokens: settings.max_tokens, format: settings.format };
  body[kind] = name;
  for (const option of ["mode", "depth", "limit", "min_score"]) {
    if (settings[option] !== "") body[option] = option === "mode" ? settings[option] : Number(settings[option]);
  }
  if (settings.as_of) body.as_of = new Date(settings.as_of).toISOString();
  for (const flag of ["citations", "paths"]) if (settings[flag]) body[flag] = true;
  if (settings.ids.length) body.ids = settings.ids;
  return body;
}

const toBudget = (step) => Math.round(MIN_BUDGET * (MAX_BUDGET / MIN_BUDGET) ** (step / STEPS) / 10) * 10;
const toStep = (budget) => Math.round(STEPS * Math.log(Math.max(budget, MIN_BUDGET) / MIN_BUDGET) / Math.log(MAX_BUDGET / MIN_BUDGET));

function budgetField(settings, onchange) {
  const unlimited = settings.max_tokens === null;
  const slider = h("input", { type: "range", min: 0, max: STEPS, value: toStep(settings.max_tokens ?? MAX_BUDGET), disabled: unlimited,
    "aria-label": "Token budget, as a slider", oninput: () => { number.value = toBudget(Number(slider.value)); update(number.value); } });
  const number = h("input", { type: "number", min: 0, max: 10000000, value: settings.max_tokens ?? "", disabled: unlimited,
    placeholder: "no limit", oninput: () => { slider.value = toStep(Number(number.value)); update(number.value); } });
  const none = h("input", { type: "checkbox", checked: unlimited, onchange: () => {
    slider.disabled = number.disabled = none.checked;
    settings.max_tokens = none.checked ? null : Number(number.value) || 1000;
    number.value = none.checked ? "" : settings.max_tokens;
    onchange();
  } });
  function update(value) {
    if (value === "") return;
    settings.max_tokens = Number(value);
    onchange();
  }
  const box = field("Token budget", number, { name: "max_tokens" });
  box.classList.add("budget");
  box.append(slider, h("label", { class: "check small" }, none, "no limit"));
  return box;
}

/** The form of the settings; `compact` leaves out the question and its spaces. */
export function settingsForm(settings, onchange, { compact = false } = {}) {
  const sources = [...session.recipes.map((name) => [`recipe:${name}`, `Recipe: ${name}`]),
    ...session.agents.map((agent) => [`agent:${agent.name}`, `Agent: ${agent.name}`])];
  const set = (name) => (value) => { settings[name] = value; onchange(); };
  const text = (name, props) => {
    const input = h("input", { value: settings[name], oninput: () => set(name)(input.value), ...props });
    return input;
  };
  const flag = (name, label) => {
    const input = h("input", { type: "checkbox", checked: settings[name], onchange: () => set(name)(input.checked) });
    return h("label", { class: "check" }, input, label);
  };
  const main = h("div", { class: "grid-form" },
    field("Format", select(FORMATS.map((name) => [name, name]), settings.format, set("format")), { name: "format" }),
    field("Recipe or agent", select(sources, settings.source, set("source")), { name: "recipe" }),
    field("Search", select(MODES, settings.mode, set("mode")), { name: "mode" }),
    field("As of", text("as_of", { type: "datetime-local" }), { name: "as_of" }));
  const more = h("details", { class: "more", open: Boolean(settings.limit || settings.depth || settings.min_score) }, h("summary", {}, "More options"),
    h("div", { class: "grid-form" },
      field("Limit", text("limit", { type: "number", min: 1, max: 1000, placeholder: "by the budget" }), { name: "limit" }),
      field("Depth of links", text("depth", { type: "number", min: 0, max: 10, placeholder: "by the recipe" }), { name: "depth" }),
      field("Minimum score", text("min_score", { type: "number", min: 0, max: 1, step: 0.05, placeholder: "0" }), { name: "min_score" })),
    h("div", { class: "row" }, flag("citations", "Numbered sources"), flag("paths", "Paths by titles")));
  const spaces = compact ? null : checks("Spaces", session.spaces.map((space) => ({ value: space.name, hint: count(space.items) })),
    settings.spaces, onchange, { name: "spaces" });
  return h("div", { class: "stack" }, spaces, budgetField(settings, onchange), main, more);
}
