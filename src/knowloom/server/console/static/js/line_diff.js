// The lines that differ between two texts, as [["=" | "-" | "+", line]].

const MAX_CELLS = 4_000_000;

export function diffLines(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (lines) => lines.map((line) => ["=", line]);
  return [...same(a.slice(0, start)), ...diffMiddle(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...same(end ? a.slice(-end) : [])];
}

/** Longest common subsequence; texts that are too long for it are shown as replaced. */
function diffMiddle(a, b) {
  if (!a.length || !b.length || a.length * b.length > MAX_CELLS) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const rows = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { rows.push(["=", a[i]]); i += 1; j += 1; }
    else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) { rows.push(["-", a[i]]); i += 1; }
    else { rows.push(["+", b[j]]); j += 1; }
  }
  return rows;
}
