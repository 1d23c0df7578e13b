// The record of a thread: every event in one list, with details beside it and the state of the thread at that event.

import {get, path} from "../model/api.js";
import {count, cost, plural, size, when} from "../model/format.js";
import {href, setQuery} from "../model/route.js";
import {AllRecords, SomeRecords, record} from "../model/records.js";
import {line} from "../text/plain.js";
import {copy, textBody} from "../ui/body.js";
import {openDialog} from "../ui/dialog.js";
import {button, fill, h} from "../ui/dom.js";
import {errorBlock, errorText, load, toast} from "../ui/notice.js";
import {itemNode} from "./talk.js";
import "../ui/list.js";
import "../ui/scrub.js";
import {facts, lazyBox, note} from "../ui/parts.js";

const KINDS = [
  ["", "all events"],
  ["failed", "failures"],
  ["turn.*", "turns"],
  ["tool.*,act.*", "tools"],
  ["reason.*,llm.*", "model calls"],
  ["output.*,input.*", "messages"],
  ["approval.*,user_input.*", "waits"],
];
const MARKS = ["turn.resumed", "turn.released", "session.forked", "session.rewound", "journal.pruned", "removed"];

/** @param {HTMLElement} box @param {import("./thread.js").ThreadPage} page @returns {import("./thread.js").View} */
export function eventsView(box, page) {
  const {talk} = page;
  const thread = talk.thread.id;
  const query = new URLSearchParams(location.search);
  let kinds = query.get("kinds") ?? "";
  let at = Number(query.get("at")) || 0;
  const list = /** @type {import("../ui/list.js").WList} */ (h(/** @type {any} */ ("w-list")));
  const scrub = /** @type {import("../ui/scrub.js").WScrub} */ (h(/** @type {any} */ ("w-scrub")));
  const aside = h("aside", {"aria-label": "Event", tabindex: "0"}, note("Choose an event."));
  const follow = h("input", {type: "checkbox"});
  const select = h("select", {"aria-label": "Events"}, KINDS.map(([value, label]) => h("option", {value, selected: value === kinds}, label)));
  const bar = h("div.filters", select, h("label.check", follow, "Follow"), h("span.dim.only-wide", "↑ ↓ move, Enter opens, [ ] step, n next failure"));
  box.append(bar, h("div.split", list, aside), scrub);

  const failed = (/** @type {unknown} */ error) => toast(errorText(error), "bad");
  const make = () =>
    kinds ? new SomeRecords(thread, kinds === "failed" ? "" : kinds, (row) => kinds !== "failed" || Boolean(row.failed), () => list.grow(), failed) : new AllRecords(thread, () => list.grow(), failed);
  let records = make();
  const open = () => {
    records.grow(talk.seq);
    list.show({count: () => records.count, row: (index) => cells(records.at(index)), need: (from, to) => records.need(from, to), key: (index) => records.seqAt(index), mark: (index) => markOf(records.at(index))}, "Events");
    if (at) list.select(records.indexOf(at), {quiet: true, center: true});
    else requestAnimationFrame(() => list.reveal(records.count - 1));
  };
  /** @param {number} seq @param {boolean} [whole] also opens the sheet of a narrow screen */
  const choose = (seq, whole = false) => {
    if (!seq) return;
    at = seq;
    setQuery({at: seq, view: "events"});
    scrub.show(1, Math.max(talk.seq, records.latest), seq);
    const narrow = getComputedStyle(aside).display === "none";
    if (narrow && !whole) return;
    const target = narrow ? h("div") : aside;
    if (narrow) openDialog(`Event ${count(seq)}`, target, "sheet");
    void details(target, page, seq);
  };
  list.addEventListener("choose", (event) => choose(records.seqAt(/** @type {CustomEvent} */ (event).detail)));
  list.addEventListener("open", (event) => choose(records.seqAt(/** @type {CustomEvent} */ (event).detail), true));
  let timer = 0;
  scrub.addEventListener("scrub", (event) => {
    const seq = /** @type {CustomEvent} */ (event).detail;
    list.follow = follow.checked = false;
    list.select(records.indexOf(seq), {quiet: true, center: true});
    clearTimeout(timer);
    timer = setTimeout(() => choose(seq), 80);
  });
  follow.addEventListener("change", () => ((list.follow = follow.checked), list.grow()));
  list.addEventListener("wheel", () => (list.follow = follow.checked = false), {passive: true});
  select.addEventListener("change", () => {
    kinds = select.value;
    setQuery({kinds});
    records = make();
    open();
  });
  /** @param {number} by */
  const nextFailure = async (by) => {
    try {
      const seq = await failure(thread, at, by);
      if (!seq) return toast("There is no further failure");
      list.select(records.indexOf(seq), {quiet: true, center: true});
      choose(seq);
    } catch (error) {
      failed(error);
    }
  };
  open();
  scrub.show(1, talk.seq, at || talk.seq);
  if (at) choose(at);
  list.focus();
  return {
    draw: () => {
      records.grow(talk.seq);
      scrub.show(1, Math.max(talk.seq, records.latest), at || talk.seq);
      list.grow();
    },
    keys: {
      j: ["Next event", () => list.select(list.active + 1)],
      k: ["Previous event", () => list.select(list.active - 1)],
      Enter: ["Open the event", () => choose(at, true)],
      "[": ["Step back in the record", () => scrub.step(-1)],
      "]": ["Step forward in the record", () => scrub.step(1)],
      n: ["Next failure", () => void nextFailure(1)],
      N: ["Previous failure", () => void nextFailure(-1)],
      f: ["Follow", () => ((list.follow = follow.checked = !follow.checked), list.grow())],
    },
  };
}

/** @param {import("../model/records.js").Row | null} row */
const markOf = (row) => (row && MARKS.includes(row.kind) ? "mark" : row?.failed ? "bad" : "");

/** @param {import("../model/records.js").Row | null} row */
function cells(row) {
  if (!row) return null;
  return [h("span.num", count(row.seq)), h("span.kind.mono", line(row.kind, 40)), h("span.clip", row.failed ? "✗ " : "", line(row.summary, 280)), h("span.num.when", when(row.at))];
}

/** Finds the nearest failure. @param {string} thread @param {number} at @param {number} by */
async function failure(thread, at, by) {
  let cursor = at;
  for (let pages = 0; pages < 200; pages++) {
    const range = by > 0 ? {after: cursor} : {before: cursor || undefined};
    const page = await get(path`/v1/threads/${thread}/records`, {...range, limit: 1000, outline: true, kinds: "tool.completed,turn.failed,reason.completed,llm.generation"});
    const found = by > 0 ? page.records.find((/** @type {any} */ row) => row.failed) : page.records.findLast((/** @type {any} */ row) => row.failed);
    if (found) return found.seq;
    cursor = by > 0 ? page.after : page.before;
    if (!cursor) return 0;
  }
  return 0;
}

/** @param {HTMLElement} target @param {import("./thread.js").ThreadPage} page @param {number} seq */
async function details(target, page, seq) {
  const {talk} = page;
  const thread = talk.thread.id;
  target.dataset.seq = String(seq);
  fill(target);
  await load(target, () => record(thread, seq), (row) => {
    if (target.dataset.seq !== String(seq)) return;
    if (!row) return fill(target, errorBlock(new Error(`Record ${count(seq)} was removed by retention. Its digest remains.`)));
    const state = h("div");
    const turn = row.turn_id ?? null;
    fill(
      target,
      h("h2", `${count(row.seq)} `, h("span.mono", line(row.kind, 60))),
      facts([["Time", row.at], ["Turn", turn], ["Size", size(row.bytes)]]),
      h("div.actions", button("State then", () => void stateAt(state, thread, seq)), turn ? button("Request", () => page.select({turn, view: "request"})) : null, turn ? h("a", {href: href("compare", "", {a: `${thread}:${turn}`})}, "What-if from this turn") : null, button("Copy link", () => copy(location.href, toast))),
      state,
      row.redacted ? h("p.warn", "The content is not shown: it is the user's answer to a question.") : content(row),
    );
  });
}

/** Long texts first, as text; then the whole record as JSON. @param {import("../model/records.js").Row} row */
function content(row) {
  const texts = longTexts(row.data).map(([name, text]) => [h("h3", name), textBody(text, {label: name, name: `${row.seq}.txt`})]);
  return [texts, lazyBox("JSON", () => textBody(JSON.stringify(row.data ?? null, null, 2), {form: "exact", label: "JSON", name: `${row.seq}.json`}), !texts.length)];
}

/** @param {any} data @param {string} [name] @param {number} [depth] @returns {[string, string][]} */
function longTexts(data, name = "text", depth = 0) {
  if (typeof data === "string") return data.length > 80 || data.includes("\n") ? [[name, data]] : [];
  if (!data || typeof data !== "object" || depth > 6) return [];
  return Object.entries(data).flatMap(([key, value]) => longTexts(value, Array.isArray(data) ? name : key, depth + 1)).slice(0, 8);
}

/** Shows the conversation as it was after an event. @param {HTMLElement} node @param {string} thread @param {number} seq */
function stateAt(node, thread, seq) {
  fill(node);
  return load(node, () => get(path`/v1/threads/${thread}/state`, {at: seq, turns: 3}), (state) => {
    const waits = state.pending_approvals.length + state.pending_user_inputs.length + state.pending_dynamic_tool_calls.length;
    fill(
      node,
      h("section.panel.state", {"aria-label": `State at event ${seq}`}, h("h3", `State at ${count(state.at)}`), note(`${plural(state.turn_count, "turn")}, ${plural(waits, "wait")}, ${cost(state.usage?.cost_usd)}`), state.items.slice(-8).map((/** @type {any} */ item) => itemNode(item))),
    );
  });
}
