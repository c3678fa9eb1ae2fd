// Builds elements. Text is always a text node: stored knowledge can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/** Create an element: h("button", {class: "primary", onclick: save}, "Save"). */
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

/** Create an SVG element. */
export function s(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

function build(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "hidden") element[name] = value;
    else if (name === "style") for (const [rule, to] of Object.entries(value)) element.style.setProperty(rule, to);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace everything inside an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** An icon of the sprite below, hidden from screen readers. */
export function icon(name) {
  const paths = ICONS[name] ?? "";
  return s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    s("path", { d: paths }));
}

const ICONS = {
  playground: "M4 5h16M4 10h10M4 15h16M4 20h7",
  graph: "M6 6m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M18 8m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M10 18m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M8.4 6.6l7.1 1M7 8.4l2.2 7.2M16.4 10l-4.9 6.2",
  knowledge: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11M9 8h6",
  memory: "M12 21a9 9 0 1 1 9-9M12 7v5l3 2M21 16v5M18.5 18.5h5",
  evaluate: "M4 20V10M10 20V4M16 20v-7M22 20H2",
  health: "M3 12h4l3-7 4 14 3-7h4",
  moon: "M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5",
  key: "M14 10a4 4 0 1 0-3.5 4L12 15.5h2V18h2.5v2.5H21V17l-7-7z",
  close: "M6 6l12 12M18 6L6 18",
  star: "M12 3.5l2.6 5.4 5.9.8-4.3 4.1 1 5.9L12 16.9l-5.2 2.8 1-5.9L3.500 9.700l5.900-.8z",
};

/** Run a function once calls have paused for some milliseconds. */
export function debounce(call, pause) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), pause);
  };
}

/** 12345 as "12,345". */
export function count(number) {
  return Number(number).toLocaleString("en-US");
}

/** A number and its noun: "1 item", "3 items". */
export function plural(number, noun) {
  return `${count(number)} ${noun}${Number(number) === 1 ? "" : "s"}`;
}

/** An ISO time for people, in their time zone. */
export function time(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return "";
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
