// Differences between two texts by line, and unified diffs as rows.

const MAX_CELLS = 4_000_000;

/** @typedef {{kind: "same" | "added" | "removed" | "note", text: string}} DiffRow */

/**
 * Compares two lists; a comparison that would be too expensive replaces one by the other.
 * @template T @param {T[]} left @param {T[]} right @param {(a: T, b: T) => boolean} [equal]
 * @returns {{kind: "same" | "added" | "removed", left?: T, right?: T}[]}
 */
export function compare(left, right, equal = (a, b) => a === b) {
  let start = 0;
  while (start < left.length && start < right.length && equal(/** @type {T} */ (left[start]), /** @type {T} */ (right[start]))) start++;
  let [a, b] = [left.length, right.length];
  while (a > start && b > start && equal(/** @type {T} */ (left[a - 1]), /** @type {T} */ (right[b - 1]))) (a--, b--);
  /** @type {{kind: "same" | "added" | "removed", left?: T, right?: T}[]} */
  const rows = [];
  for (let i = 0; i < start; i++) rows.push({kind: "same", left: left[i], right: right[i]});
  const [n, m] = [a - start, b - start];
  if (n * m > MAX_CELLS) {
    for (let i = start; i < a; i++) rows.push({kind: "removed", left: left[i]});
    for (let j = start; j < b; j++) rows.push({kind: "added", right: right[j]});
  } else {
    const width = m + 1;
    const table = new Uint32Array((n + 1) * width);
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        const same = equal(/** @type {T} */ (left[start + i]), /** @type {T} */ (right[start + j]));
        table[i * width + j] = same
          ? 1 + (table[(i + 1) * width + j + 1] ?? 0)
          : Math.max(table[(i + 1) * width + j] ?? 0, table[i * width + j + 1] ?? 0);
      }
    }
    let [i, j] = [0, 0];
    while (i < n || j < m) {
      const [x, y] = [left[start + i], right[start + j]];
      if (i < n && j < m && equal(/** @type {T} */ (x), /** @type {T} */ (y))) (rows.push({kind: "same", left: x, right: y}), i++, j++);
      else if (j >= m || (i < n && (table[(i + 1) * width + j] ?? 0) >= (table[i * width + j + 1] ?? 0))) (rows.push({kind: "removed", left: x}), i++);
      else (rows.push({kind: "added", right: y}), j++);
    }
  }
  for (let i = 0; i < left.length - a; i++) rows.push({kind: "same", left: left[a + i], right: right[b + i]});
  return rows;
}

/** Compares two texts by line and drops equal lines far from a change. @param {string} before @param {string} after @returns {DiffRow[]} */
export function diffText(before, after) {
  const rows = compare(before.split("\n"), after.split("\n")).map(({kind, left, right}) => ({kind, text: String(right ?? left)}));
  return folded(rows, 3);
}

/** @param {DiffRow[]} rows @param {number} around @returns {DiffRow[]} */
function folded(rows, around) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, index) => {
    if (row.kind !== "same") near.fill(1, Math.max(0, index - around), index + around + 1);
  });
  /** @type {DiffRow[]} */
  const shown = [];
  let hidden = 0;
  rows.forEach((row, index) => {
    if (near[index]) {
      if (hidden) shown.push({kind: "note", text: `${hidden} equal lines`});
      hidden = 0;
      shown.push(row);
    } else hidden++;
  });
  if (hidden) shown.push({kind: "note", text: `${hidden} equal lines`});
  return shown;
}

/** Reads a unified diff. @param {string} text @returns {DiffRow[]} */
export const parseUnified = (text) =>
  text.split("\n").map((line) => {
    if (/^(@@|diff |index |--- |\+\+\+ |\\ )/.test(line)) return {kind: "note", text: line};
    if (line.startsWith("+")) return {kind: "added", text: line.slice(1)};
    if (line.startsWith("-")) return {kind: "removed", text: line.slice(1)};
    return {kind: "same", text: line.slice(1)};
  });
