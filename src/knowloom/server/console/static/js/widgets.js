// Parts that several views use: fields, messages, dialogs, empty states.

import { fill, h, icon } from "./dom.js";

let lastId = 0;

/** A labelled control; errors of the server are shown at it by name. */
export function field(label, control, { name = "", hint = "", wide = false } = {}) {
  const id = control.id || `f${++lastId}`;
  control.id = id;
  const note = h("p", { class: "hint", id: `${id}-hint` }, hint);
  const error = h("p", { class: "field-error", id: `${id}-error`, hidden: true });
  control.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
  return h("div", { class: wide ? "field wide" : "field", "data-field": name || null },
    h("label", { for: id }, label), control, hint ? note : null, error);
}

/** Show the errors of a refused request at their fields; return those that have no field. */
export function showFieldErrors(form, error) {
  clearFieldErrors(form);
  const rows = error?.fields?.length ? error.fields : error ? [{ field: "", message: error.message }] : [];
  const rest = [];
  for (const { field: name, message } of rows) {
    const names = [name, name.split(/[.[]/)[0], guessField(message)];
    const box = names.filter(Boolean)
      .map((each) => form.querySelector(`[data-field="${CSS.escape(each)}"]`)).find(Boolean);
    const line = box?.querySelector(".field-error");
    if (!line) {
      rest.push(name ? `${name}: ${message}` : message);
      continue;
    }
    box.classList.add("invalid");
    box.querySelector("input,select,textarea")?.setAttribute("aria-invalid", "true");
    line.textContent = message;
    line.hidden = false;
  }
  return rest;
}

function guessField(message) {
  return /^([a-z_]+)\b/.exec(message)?.[1] ?? "";
}

export function clearFieldErrors(form) {
  for (const box of form.querySelectorAll(".field.invalid")) {
    box.classList.remove("invalid");
    box.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
    box.querySelector(".field-error").hidden = true;
  }
}

export function select(options, value, onchange, props = {}) {
  const control = h("select", { onchange: () => onchange(control.value), ...props },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  control.value = value;
  return control;
}

export function notice(kind, ...children) {
  return h("div", { class: `notice ${kind}`, role: kind === "error" ? "alert" : "note" }, children);
}

/** An empty view: what is missing, and what to do next. */
export function empty(title, text, ...actions) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, text),
    actions.length ? h("div", { class: "row" }, actions) : null);
}

export function busy(text) {
  return h("p", { class: "busy", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

/** A message that leaves by itself; an action keeps it longer. */
export function toast(text, action) {
  const box = h("div", { class: "toast" }, h("span", {}, text),
    action ? h("button", { class: "link", onclick: () => { box.remove(); action.run(); } }, action.text) : null,
    h("button", { class: "quiet icon-only", "aria-label": "Dismiss", onclick: () => box.remove() }, icon("close")));
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), action ? 20000 : 6000);
}

/** A modal dialog that closes by Escape or its button; return a function that closes it. */
export function dialog(title, content, { onclose, dismissible = true } = {}) {
  const close = () => box.close();
  const head = h("div", { class: "dialog-head" }, h("h2", { id: `d${++lastId}` }, title),
    dismissible ? h("button", { class: "quiet icon-only", "aria-label": "Close", onclick: close }, icon("close")) : null);
  const box = h("dialog", { "aria-labelledby": `d${lastId}`, class: "dialog" }, head,
    h("div", { class: "dialog-body" }, content));
  box.addEventListener("close", () => { box.remove(); onclose?.(); });
  box.addEventListener("cancel", (event) => { if (!dismissible) event.preventDefault(); });
  document.body.append(box);
  box.showModal();
  return close;
}

/** Ask before something that cannot be undone. */
export function confirm(title, text, verb) {
  return new Promise((resolve) => {
    let agreed = false;
    const close = dialog(title, [h("p", {}, text), h("div", { class: "row end" },
      h("button", { onclick: () => close() }, "Cancel"),
      h("button", { class: "danger", onclick: () => { agreed = true; close(); } }, verb))],
    { onclose: () => resolve(agreed) });
  });
}

/** Choose several of some values by check boxes. */
export function checks(legend, values, chosen, onchange, { name = "" } = {}) {
  const box = h("fieldset", { class: "checks", "data-field": name || null }, h("legend", {}, legend));
  for (const { value, label, hint } of values) {
    const input = h("input", { type: "checkbox", checked: chosen.has(value), onchange: () => {
      if (input.checked) chosen.add(value);
      else chosen.delete(value);
      onchange();
    } });
    box.append(h("label", { class: "check" }, input, h("span", { class: "check-text" }, label ?? value),
      hint !== undefined ? h("span", { class: "muted num" }, hint) : null));
  }
  box.append(h("p", { class: "field-error", hidden: true }));
  return box;
}

/** Tabs that show one panel at a time. */
export function tabs(label, panels, initial = 0) {
  const body = h("div", { class: "tab-panel", role: "tabpanel", tabindex: "0", "aria-label": panels[initial][0] });
  const buttons = panels.map(([name], index) => h("button", {
    role: "tab", "aria-selected": String(index === initial), tabindex: index === initial ? "0" : "-1",
    onclick: () => open(index),
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) open((index + step + panels.length) % panels.length, true);
    } }, name));
  function open(index, focus = false) {
    buttons.forEach((button, each) => {
      button.setAttribute("aria-selected", String(each === index));
      button.tabIndex = each === index ? 0 : -1;
    });
    body.setAttribute("aria-label", panels[index][0]);
    fill(body, panels[index][1]());
    if (focus) buttons[index].focus();
  }
  fill(body, panels[initial][1]());
  return h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": label }, buttons), body);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser refused to copy: select the text and copy it.");
  }
}
