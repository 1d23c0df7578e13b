// Two versions of a text, line by line.

import {cut, visible} from "../text/plain.js";
import {h} from "./dom.js";
import {note} from "./parts.js";

const MAX_ROWS = 2000;
const SIGNS = {same: " ", added: "+", removed: "−", note: "·"};

/** Shows the rows of a difference. @param {import("../text/diff.js").DiffRow[]} rows @param {string} label */
export function diffView(rows, label) {
  const shown = rows.slice(0, MAX_ROWS).map((row) => h("div", {class: "diff-row " + row.kind}, h("span.sign", SIGNS[row.kind]), visible(cut(row.text, 2000))));
  const rest = rows.length - shown.length;
  return h("div.diff", {role: "region", tabindex: "0", "aria-label": label}, shown, rest > 0 ? note(`${rest} more lines`) : null);
}
