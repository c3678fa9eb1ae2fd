// Files and folders that are dropped or chosen, loaded one by one with a report.

import { api } from "./api.js";
import { fill, h, plural } from "./dom.js";
import { session } from "./session.js";
import { dialog, field, notice } from "./widgets.js";

const ROWS = /\.(jsonl|ndjson|json)$/i;
const MAX_BYTES = 14_000_000; // of a file: base64 makes it a third larger

export function uploadDialog({ onclose }) {
  const names = session.spaces.map((space) => space.name).filter((name) => session.mayWrite(name));
  const space = h("input", { value: names[0] ?? "default", list: "upload-spaces", required: true, maxlength: 500 });
  const report = h("div", { class: "stack", "aria-live": "polite" });
  const pick = (props) => {
    const input = h("input", { type: "file", multiple: true, class: "sr", tabindex: "-1", "aria-hidden": "true", ...props, onchange: () => run([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }))) });
    return input;
  };
  const files = pick({}), folder = pick({ webkitdirectory: true });
  const drop = h("div", { class: "drop", "data-field": "files",
    ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: async (event) => { event.preventDefault(); drop.classList.remove("over"); run(await droppedFiles(event.dataTransfer)); } },
  h("p", {}, "Drop files or folders here"), h("div", { class: "row" }, h("button", { onclick: () => files.click() }, "Choose files"), h("button", { onclick: () => folder.click() }, "Choose a folder")),
  h("p", { class: "small muted" }, "Markdown, text, HTML, PDF, Word, tables, code, notebooks and JSON rows."), files, folder);

  async function run(entries) {
    if (!entries.length) return;
    const total = { added: 0, updated: 0, unchanged: 0, removed: 0, skipped: [], problems: [] };
    const fillBar = h("div", {});
    const bar = h("div", { class: "bar", role: "progressbar", "aria-label": "Progress of loading", "aria-valuemin": 0, "aria-valuemax": entries.length, "aria-valuenow": 0 }, fillBar);
    const line = h("p", { class: "small muted break" });
    fill(report, bar, line);
    for (const [index, entry] of entries.entries()) {
      line.textContent = `Loading ${entry.path} (${index + 1} of ${entries.length}) …`;
      try {
        merge(total, await loadFile(space.value, entry));
      } catch (error) {
        total.skipped.push({ where: entry.path, what: "the whole file", why: error.message });
        if (error.status === 0 || error.status === 401 || error.status === 403) break;
      }
      bar.setAttribute("aria-valuenow", index + 1);
      fillBar.style.width = `${(100 * (index + 1)) / entries.length}%`;
    }
    const counts = ["added", "updated", "unchanged", "removed"].filter((name) => total[name]).map((name) => `${total[name]} ${name}`);
    line.textContent = "";
    report.append(notice(total.skipped.length ? "warn" : "good", `${plural(entries.length, "file")}: ${counts.join(", ") || "no items"}${total.skipped.length ? `, ${total.skipped.length} skipped` : ""}.`),
      ...total.problems.map((problem) => notice("warn", problem)));
    if (total.skipped.length) {
      report.append(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Skipped" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Skipped"), h("th", {}, "Why"))),
        h("tbody", {}, total.skipped.slice(0, 200).map((row) => h("tr", {}, h("td", {}, `${row.where}: ${row.what}`), h("td", {}, row.why)))))));
    }
  }

  dialog("Add files", [h("datalist", { id: "upload-spaces" }, names.map((name) => h("option", { value: name }))), field("Space", space, { name: "space", hint: "An existing space, or the name of a new one." }), drop, report], { onclose });
}

function merge(total, report) {
  for (const name of ["added", "updated", "unchanged", "removed"]) total[name] += report[name];
  total.skipped.push(...report.skipped);
  total.problems.push(...report.problems);
}

async function loadFile(space, { file, path }) {
  if (file.size > MAX_BYTES) throw new Error(`larger than ${MAX_BYTES / 1e6} MB: use knowloom load`);
  const base = `/api/spaces/${encodeURIComponent(space)}`;
  if (ROWS.test(path)) return api(`${base}/bulk`, { body: parseRows(await file.text(), path) });
  return api(`${base}/files`, { body: { files: [{ path, content: await toBase64(file) }] } });
}

function parseRows(text, path) {
  if (/\.json$/i.test(path)) {
    const value = JSON.parse(text);
    return Array.isArray(value) ? { items: value } : value;
  }
  const rows = text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
  return { items: rows.filter((row) => !("target" in row)), edges: rows.filter((row) => "target" in row) };
}

function toBase64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(new Error("the browser cannot read this file"));
    reader.readAsDataURL(file);
  });
}

/** All files of a drop, folders included. */
async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  const walk = async (entry) => {
    if (entry.isFile) {
      found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path: entry.fullPath.replace(/^\//, "") });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const children = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!children.length) return;
      for (const child of children) await walk(child);
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}
