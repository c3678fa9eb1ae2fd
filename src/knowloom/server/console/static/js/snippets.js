// A request as code: Python, curl, the shell, and a call of the MCP tool.

const quote = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;

function python(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return JSON.stringify(value);
}

function asPython({ query, ...options }) {
  const { ids, ...rest } = options;
  const lines = Object.entries(ids ? { ...rest, ids } : rest).map(([name, value]) => `    ${name}=${python(value)},`);
  const call = ids ? "explain" : "context";
  return ["import knowloom", "", `kb = knowloom.Client(${JSON.stringify(location.origin)})  # or knowloom.open("knowledge.db")`,
    `context = kb.${call}(`, `    ${python(query)},`, ...lines, ")", "print(context.text)"].join("\n");
}

function asCurl(body) {
  return [`curl ${location.origin}/api/explain \\`, `  -H "authorization: Bearer $KNOWLOOM_KEY" \\`,
    `  -H 'content-type: application/json' \\`, `  -d ${quote(JSON.stringify(body))}`].join("\n");
}

const FLAGS = { max_tokens: "--max-tokens", format: "--format", recipe: "--recipe", agent: "--agent", mode: "--mode",
  depth: "--depth", limit: "--limit", min_score: "--min-score", as_of: "--as-of" };

function asShell(body) {
  const parts = [body.ids ? "knowloom explain" : "knowloom context", quote(body.query),
    ...body.spaces.map((space) => `--space ${quote(space)}`)];
  for (const [name, flag] of Object.entries(FLAGS)) {
    if (body[name] !== undefined && body[name] !== null) parts.push(`${flag} ${quote(body[name])}`);
  }
  for (const id of body.ids ?? []) parts.push(`--item ${quote(id)}`);
  return parts.join(" \\\n  ");
}

function asMcp({ ids, ...options }) {
  const name = ids ? "explain" : "context";
  const params = { name, arguments: ids ? { ...options, ids } : options };
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, null, 2);
}

export const SNIPPETS = [["Python", asPython], ["curl", asCurl], ["Shell", asShell], ["MCP call", asMcp]];
