// Calls of the server's API, with errors that can be shown in words.

import { session } from "./session.js";

export class ApiError extends Error {
  constructor(status, code, detail, fields = []) {
    super(detail);
    this.status = status;
    this.code = code;
    this.fields = fields; // [{field, message}]
  }
}

const UNREACHABLE = "The server does not answer. What you typed is kept; try again when it runs.";
const listeners = new Set();

/** Call back with (isReachable, error) after every request. */
export function onRequest(listener) {
  listeners.add(listener);
}

function report(error) {
  for (const listener of listeners) listener(error);
}

async function send(path, { method, body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (session.key) headers.authorization = `Bearer ${session.key}`;
  let response;
  try {
    response = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers, signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit", cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const failure = new ApiError(0, "unreachable", UNREACHABLE);
    report(failure);
    throw failure;
  }
  if (!response.ok) {
    const failure = await readProblem(response);
    report(failure);
    throw failure;
  }
  report(null);
  return response;
}

async function readProblem(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // A proxy may answer with a page of its own.
  }
  const wait = response.headers.get("retry-after");
  let detail = problem.detail ?? problem.title ?? `The server answered with status ${response.status}.`;
  if (response.status === 429 && wait) detail += `; try again in ${wait} s`;
  return new ApiError(response.status, problem.code ?? "error", detail, problem.errors ?? []);
}

/** Send a request; return the JSON of the response, null if it has none. */
export async function api(path, options) {
  const response = await send(path, options);
  return response.status === 204 ? null : response.json();
}

/** Send a request whose response is JSON Lines; call back with each line. */
export async function stream(path, options, onLine) {
  const response = await send(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) onLine(JSON.parse(line));
  }
}

/** The path of an item: ids may contain anything, slashes stay. */
export function itemPath(space, id) {
  const parts = String(id).split("/").map(encodeURIComponent).join("/");
  return `/api/spaces/${encodeURIComponent(space)}/items/${parts}`;
}
