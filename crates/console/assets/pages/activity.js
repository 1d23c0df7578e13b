// All runs: turns of this daemon, external agents, and runs that other programs reported.

import {page} from "../model/api.js";
import {between, cost, count, duration, fullTime, plural, shortId, when} from "../model/format.js";
import {href, setQuery} from "../model/route.js";
import {request} from "../model/socket.js";
import {line} from "../text/plain.js";
import {textBody} from "../ui/body.js";
import {button, fill, h} from "../ui/dom.js";
import {emptyBlock, errorBlock, load} from "../ui/notice.js";
import {statusOf} from "../ui/status.js";
import {facts, lazyBox, note} from "../ui/parts.js";

const FILTERS = /** @type {const} */ ([
  ["", "all"],
  ["waiting", "waiting"],
  ["failure,timeout,give_up,incomplete", "failed"],
  ["in_progress", "running"],
]);

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export function show(main, context) {
  const {route} = context;
  const run = route.query.get("run");
  if (run) return showReported(main, run);
  const filter = {status: route.query.get("status") ?? "", kind: route.query.get("kind") ?? "", agent: route.query.get("agent") ?? "", q: route.query.get("q") ?? ""};
  const body = h("tbody");
  const more = h("p");
  const fresh = h("p", {role: "status"});
  /** @type {any[]} */
  let rows = [];
  /** @type {string | null} */
  let next = null;

  const draw = () => {
    if (!rows.length) {
      fill(body);
      return fill(more, Object.values(filter).some(Boolean) ? emptyBlock("No run matches these filters.") : emptyBlock("No runs yet. Start one:", 'windlass run "What is in this directory?"'));
    }
    fill(body, rows.map(row));
    fill(more, next ? button("Show older runs", () => void read(true)) : null);
  };
  const read = async (older = false) => {
    try {
      const answer = await page("/v1/runs", {...filter, limit: 50, cursor: older ? next : undefined}, context.signal);
      rows = older ? [...rows, ...answer.rows] : answer.rows;
      next = answer.next;
      fill(fresh);
      draw();
    } catch (error) {
      if (!context.signal.aborted) fill(more, errorBlock(error, () => void read(older)));
    }
  };
  /** @param {Partial<typeof filter>} change */
  const change = (change) => {
    Object.assign(filter, change);
    setQuery(filter);
    for (const node of chips) node.setAttribute("aria-pressed", String(node.dataset.status === filter.status));
    void read();
  };
  const chips = FILTERS.map(([value, label]) => button(label, () => change({status: value}), {"data-status": value, "aria-pressed": String(value === filter.status)}));
  const kind = h("select", {"aria-label": "Origin"}, [["", "any origin"], ["turn", "turns"], ["reported", "reported runs"]].map(([value, label]) => h("option", {value, selected: value === filter.kind}, label)));
  kind.addEventListener("change", () => change({kind: kind.value}));
  const agent = h("input", {type: "text", placeholder: "Agent", "aria-label": "Agent", value: filter.agent, size: "14"});
  agent.addEventListener("change", () => change({agent: agent.value.trim()}));
  const find = h("input", {type: "search", placeholder: "Find in intents", "aria-label": "Find in intents", value: filter.q});
  find.addEventListener("change", () => change({q: find.value.trim()}));
  fill(
    main,
    h("h1", "Activity"),
    h("div.filters", chips, kind, agent, find),
    fresh,
    h(
      "table.stack.runs",
      h("thead", h("tr", ["Status", "Intent", "Agent", "Model", "Steps", "Cost", "Took", "When"].map((name, at) => h("th", {scope: "col", class: at > 3 ? "num" : ""}, name)))),
      body,
    ),
    more,
  );
  context.keys({f: ["Show new runs", () => void read()]});
  context.poll(4000, async () => {
    if (!rows.length) return read();
    const {rows: newest} = await page("/v1/runs", {...filter, limit: 50}, context.signal);
    const byId = new Map(newest.map((run) => [run.id, run]));
    const known = new Set(rows.map((run) => run.id));
    const added = newest.filter((run) => !known.has(run.id)).length;
    rows = rows.map((run) => byId.get(run.id) ?? run);
    draw();
    // Nothing moves until the user asks for it.
    fill(fresh, added ? button(`${plural(added, "new run")} – show (f)`, () => void read()) : null);
  });
}

/** @param {any} run */
function row(run) {
  const target = run.thread_id ? href("threads", run.thread_id, {turn: run.id}) : href("runs", "", {run: run.id});
  return h(
    "tr",
    h("td", statusOf(run)),
    h("td.title", h("a", {href: target}, line(run.intent, 200) || shortId(run.id))),
    h("td.mono", line(run.agent, 40)),
    h("td.mono", line(run.model, 40)),
    h("td.num", {"data-label": "steps"}, count(run.steps)),
    h("td.num", cost(run.usage?.cost_usd)),
    h("td.num", duration(between(run.started_at, run.ended_at))),
    h("td.num", {title: fullTime(run.started_at)}, when(run.started_at)),
  );
}

/** The trace of a run that another program reported. @param {HTMLElement} main @param {string} run */
function showReported(main, run) {
  const root = h("div");
  fill(main, h("h1", "Reported run ", h("span.mono", shortId(run))), root);
  return load(root, () => request("runs.get_trace", {run_id: run}), (trace) =>
    fill(
      root,
      facts([["Agent", line(trace.agent_id)], ["Run", line(run)]]),
      trace.records.map((/** @type {any} */ record) => lazyBox([`${record.record} ${record.index ?? ""} `, line(record.tool ?? record.model_id ?? "", 60), " ", line(record.assistant_text ?? record.output ?? "", 120)], () => textBody(JSON.stringify(record, null, 2), {form: "exact"}))),
      trace.next_cursor ? note("Only the first records are shown.") : null,
    ),
  );
}
