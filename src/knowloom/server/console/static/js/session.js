// The state that views share: the key, its rights, the spaces, and marked answers.

function read(name) {
  try {
    return sessionStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function write(name, value) {
  try {
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
  } catch {
    // Without storage the value lasts as long as the page.
  }
}

export const session = {
  key: read("knowloom-key"),
  rights: null, // the response of GET /api/key
  spaces: [],
  recipes: ["knowledge"],
  agents: [],
  path: [], // the walk to highlight in the graph: [{space, id}]

  setKey(key) {
    session.key = key;
    write("knowloom-key", key);
  },

  /** True if the key may write a space, or any space. */
  mayWrite(space) {
    const rights = session.rights;
    if (!rights || rights.role === "viewer") return false;
    if (space === undefined) return rights.writes.length > 0;
    return rights.writes.includes("*") || rights.writes.includes(space);
  },

  get isAdmin() {
    return session.rights?.role === "admin";
  },
};

/** Questions with the items that were marked as right, for an evaluation. */
export const marks = {
  rows() {
    try {
      return JSON.parse(read("knowloom-marks") || "[]");
    } catch {
      return [];
    }
  },

  save(rows) {
    write("knowloom-marks", rows.length ? JSON.stringify(rows) : "");
  },

  has(question, item) {
    const row = marks.rows().find((each) => each.question === question);
    return Boolean(row?.expected.some((each) => each.space === item.space && each.id === item.id));
  },

  /** Mark or unmark an item as an answer of a question; return true if it is marked now. */
  toggle(question, spaces, item) {
    const rows = marks.rows();
    let row = rows.find((each) => each.question === question);
    if (!row) rows.push((row = { question, spaces, expected: [] }));
    const marked = marks.has(question, item);
    row.expected = row.expected.filter((each) => each.space !== item.space || each.id !== item.id);
    if (!marked) row.expected.push({ space: item.space, id: String(item.id) });
    row.spaces = [...new Set([...row.spaces, ...row.expected.map((each) => each.space)])];
    marks.save(rows.filter((each) => each.expected.length));
    return !marked;
  },
};
