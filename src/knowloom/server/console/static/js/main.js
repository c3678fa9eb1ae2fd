// Starts the console: signs in, draws the navigation, and opens the view of the address.

import { api, onRequest } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { session } from "./session.js";
import { busy, dialog, field, notice } from "./widgets.js";

const VIEWS = {
  playground: { title: "Playground", load: () => import("./views/playground.js") },
  graph: { title: "Graph", load: () => import("./views/graph.js") },
  knowledge: { title: "Knowledge", load: () => import("./views/knowledge.js") },
  memory: { title: "Memory", load: () => import("./views/memory.js") },
  evaluate: { title: "Evaluate", load: () => import("./views/evaluate.js") },
  health: { title: "Health", load: () => import("./views/health.js"), isAllowed: () => session.isAdmin },
};
const main = document.getElementById("main");
let opened = null; // the open view: {name, leave, update}
let asking = false;

/** The view and its parameters: #/knowledge?space=s&id=i. */
function parseAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { name: VIEWS[path] ? path : "playground", params: new URLSearchParams(query ?? "") };
}

function drawNavigation(current) {
  const links = Object.entries(VIEWS).filter(([, view]) => !view.isAllowed || view.isAllowed())
    .map(([name, view]) => h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : null },
      icon(name), view.title));
  fill(document.getElementById("nav"), links);
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const rights = session.rights;
  const who = rights && (rights.open ? "open server" : `${rights.name} · ${rights.role}`);
  fill(document.getElementById("rail-foot"),
    who ? h("span", { class: "who muted clip", title: who }, who) : null,
    rights && !rights.open ? h("button", { class: "quiet small", onclick: signOut }, icon("key"), "Sign out") : null,
    h("button", { class: "quiet small", onclick: switchTheme, "aria-label": "Switch between light and dark" },
      icon(isDark() ? "sun" : "moon"), h("span", { class: "who" }, isDark() ? "Light" : "Dark")));
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("knowloom-theme", theme);
  } catch {
    // The choice lasts as long as the page.
  }
  drawNavigation(parseAddress().name);
  dispatchEvent(new Event("themechange"));
}

function signOut() {
  session.setKey("");
  location.reload();
}

async function open() {
  const { name, params } = parseAddress();
  const view = VIEWS[name];
  if (opened?.name === name && opened.update) {
    opened.update(params);
    return;
  }
  opened?.leave?.();
  opened = null;
  drawNavigation(name);
  document.title = `${view.title} · knowloom`;
  fill(main, busy(`Opening ${view.title} …`));
  const module = await view.load();
  if (parseAddress().name !== name) return;
  main.replaceChildren();
  opened = { name, ...module.show(main, params) };
  main.focus({ preventScroll: true });
}

/** Load the rights of the key and the spaces; ask for a key if the server needs one. */
async function signIn() {
  session.rights = await api("/api/key");
  await refreshSpaces();
  const agents = await api("/api/agents").catch(() => ({ agents: [] }));
  session.agents = agents.agents;
  session.recipes = agents.recipes ?? session.recipes;
}

export async function refreshSpaces() {
  session.spaces = (await api("/api/spaces")).spaces.filter((space) => space.items > 0);
}

function askForKey(message, then) {
  if (asking) return;
  asking = true;
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const box = field("API key", input, { hint: "Kept in this tab until it is closed. Create one with: knowloom keys add" });
  const problem = h("div", {}, message ? notice("warn", message) : null);
  const form = h("form", { class: "stack", onsubmit: async (event) => {
    event.preventDefault();
    session.setKey(input.value.trim());
    try {
      await signIn();
      asking = false;
      close();
      then();
    } catch (error) {
      session.setKey("");
      fill(problem, notice("error", error.status === 401 ? "This key is not valid, or was revoked." : error.message));
      input.select();
    }
  } }, problem, box, h("div", { class: "row end" }, h("button", { class: "primary" }, "Continue")));
  const close = dialog("This server needs a key", form, { dismissible: false });
  input.focus();
}

onRequest((error) => {
  const banner = document.getElementById("banner");
  if (!error) banner.replaceChildren();
  else if (error.status === 0) {
    fill(banner, notice("error", error.message, h("button", { class: "small", onclick: probe }, "Try again")));
  } else if (error.status === 401 && session.rights) {
    askForKey("The key is no longer valid: it was revoked. What you typed is still there.", () => drawNavigation(parseAddress().name));
  }
});

async function probe() {
  await api("/api/key").then(() => dispatchEvent(new Event("serverback")), () => {});
}

async function start() {
  drawNavigation(parseAddress().name);
  try {
    await signIn();
  } catch (error) {
    if (error.status === 401) {
      fill(main, h("div", { class: "empty" }, h("h2", {}, "Sign in"), h("p", {}, "The console opens as soon as the server accepts your key.")));
      askForKey(session.key ? "The key of this tab is not valid any more." : "", open);
    } else {
      fill(main, h("div", { class: "empty" }, h("h2", {}, "The console cannot start"), h("p", {}, error.message),
        h("button", { class: "primary", onclick: () => location.reload() }, "Try again")));
    }
    addEventListener("hashchange", () => session.rights && open());
    return;
  }
  addEventListener("hashchange", open);
  await open();
}

start();
