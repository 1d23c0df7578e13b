// A turn to scale: model calls, tools, waits and restarts on one axis of time.

import {get, path} from "../model/api.js";
import {duration} from "../model/format.js";
import {line} from "../text/plain.js";
import {button, fill, h} from "../ui/dom.js";
import {load} from "../ui/notice.js";
import {dim, note} from "../ui/parts.js";

/** @typedef {{seq: number, label: string, kind: string, from: number, to: number, text: string}} Span */

/** The turn that a view is about, with a menu of the others. @param {HTMLElement} box @param {import("./thread.js").ThreadPage} page @param {(turn: string) => void} open */
export function turnMenu(box, {talk, context}, open) {
  const turns = [...talk.turns.values()];
  const wanted = new URLSearchParams(location.search).get("turn") ?? context.route.query.get("turn");
  const chosen = turns.find((turn) => turn.id === wanted) ?? turns.at(-1);
  const menu = h("select", {"aria-label": "Turn"}, turns.map((turn, at) => h("option", {value: turn.id, selected: turn === chosen}, `${at + 1}. ${line(turn.input_summary, 60)}`)));
  menu.addEventListener("change", () => open(menu.value));
  box.append(h("div.filters", h("label", "Turn ", menu)));
  return chosen?.id;
}

/** Reads the records of a turn. @param {string} thread @param {string} turn @param {object} [query] @returns {Promise<import("../model/records.js").Row[]>} */
export async function recordsOfTurn(thread, turn, query = {}) {
  /** @type {import("../model/records.js").Row[]} */
  let rows = [];
  /** @type {number | undefined} */
  let before;
  // Newest first: most often the last turn is the one that is looked at.
  for (let pages = 0; pages < 100; pages++) {
    const page = await get(path`/v1/threads/${thread}/records`, {before, limit: 1000, ...query});
    const found = page.records.filter((/** @type {any} */ row) => row.turn_id === turn);
    rows = [...found, ...rows];
    before = page.before;
    if (!before || (rows.length && !found.length && page.records.length)) break;
  }
  return rows;
}

/** @param {HTMLElement} box @param {import("./thread.js").ThreadPage} page @returns {import("./thread.js").View} */
export function waterfallView(box, page) {
  const root = h("div.scroll");
  const show = (/** @type {string} */ turn) =>
    load(root, () => recordsOfTurn(page.talk.thread.id, turn, {outline: true, kinds: "turn.*,reason.*,act.*,tool.*,approval.*,user_input.*"}), (rows) => draw(root, spansOf(rows), page));
  const turn = turnMenu(box, page, (chosen) => page.select({turn: chosen, view: "waterfall"}));
  box.append(root);
  if (turn) void show(turn);
  return {draw: () => turn && page.talk.changed.has(turn) && !page.talk.openTurn && void show(turn)};
}

const STARTS = {"reason.started": "model", "tool.started": "tool", "approval.required": "wait", "user_input.required": "wait", "tool.call_requested": "wait"};
const ENDS = ["reason.completed", "tool.completed", "approval.decided", "approval.timeout", "user_input.answered", "user_input.canceled", "tool.call_resolved", "tool.call_timeout", "tool.call_canceled"];

/** Pairs the start of each step with its end. @param {import("../model/records.js").Row[]} rows @returns {Span[]} */
function spansOf(rows) {
  /** @type {Span[]} */
  const spans = [];
  /** @type {Map<string, Span>} */
  const open = new Map();
  const now = Date.parse(rows.at(-1)?.at ?? "");
  for (const row of rows) {
    const at = Date.parse(row.at);
    const kind = STARTS[/** @type {keyof typeof STARTS} */ (row.kind)];
    const id = `${row.kind.split(".")[0] === "tool" && kind !== "wait" && !row.kind.startsWith("tool.call") ? "tool" : kind === "wait" || /^(approval|user_input|tool\.call)/.test(row.kind) ? "wait" : "model"} ${row.item_id ?? row.step_id ?? ""}`;
    if (kind) {
      const span = {seq: row.seq, label: kind === "model" ? "call" : row.summary.replace(/ started$/, "") || row.kind, kind, from: at, to: now, text: "running"};
      spans.push(span);
      open.set(id, span);
    } else if (ENDS.includes(row.kind)) {
      const span = open.get(id);
      open.delete(id);
      if (!span) continue;
      span.to = at;
      span.text = duration(at - span.from);
      if (row.failed) span.kind = "bad";
    } else if (row.kind === "turn.resumed" || row.kind === "turn.steered") spans.push({seq: row.seq, label: row.kind === "turn.resumed" ? "↻ resumed after a restart" : "steered", kind: "wait", from: at, to: at, text: ""});
  }
  return spans;
}

/** @param {HTMLElement} root @param {Span[]} spans @param {import("./thread.js").ThreadPage} page */
function draw(root, spans, page) {
  const from = Math.min(...spans.map((span) => span.from));
  const whole = Math.max(...spans.map((span) => span.to)) - from || 1;
  const rows = spans.map((span) => {
    const bar = h("span", {class: "span-bar " + span.kind});
    bar.style.left = (100 * (span.from - from)) / whole + "%";
    bar.style.width = (100 * (span.to - span.from)) / whole + "%";
    const row = button("", () => page.select({at: span.seq, view: "events"}), {class: "span-row", title: `Event ${span.seq}`});
    row.append(h("span.clip", dim({model: "model", tool: "tool", wait: "wait", bad: "✗"}[span.kind] ?? "", " "), line(span.label, 120)), h("span.span-track", bar), h("span.num", span.text));
    return row;
  });
  fill(root, spans.length ? h("div.waterfall", note(`${duration(whole)} in total. A row opens its event.`), rows) : note("This turn has no steps."));
}
