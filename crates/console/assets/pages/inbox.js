// The inbox: requests that wait for the user, running work, today's cost, and the daemon's health.

import {get, page} from "../model/api.js";
import {waitOfRow} from "../model/fold.js";
import {cost, plural, shortId} from "../model/format.js";
import {href} from "../model/route.js";
import {line} from "../text/plain.js";
import {since} from "../ui/clock.js";
import {fill, h} from "../ui/dom.js";
import {announce, emptyBlock, errorBlock} from "../ui/notice.js";
import {showWaits} from "../ui/shell.js";
import {statusOf} from "../ui/status.js";
import {waitCard} from "../ui/wait.js";
import {dim, facts, note} from "../ui/parts.js";

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export function show(main, context) {
  const waits = h("div.waits");
  const running = h("div");
  const today = h("div");
  const health = h("div");
  fill(
    main,
    h("h1.sr-only", "Inbox"),
    h(
      "div.columns",
      h("section", {"aria-label": "Requests that wait for you"}, h("h2", "Waiting for you"), waits),
      h("div", panel("Running", running), panel("Today", today), panel("Daemon", health)),
    ),
  );
  context.poll(3000, () => Promise.all([showWaiting(waits), showRunning(running)]));
  context.poll(15_000, () => Promise.all([showToday(today), showHealth(health)]));
}

/** @param {string} title @param {HTMLElement} content */
const panel = (title, content) => h("section.panel", {"aria-label": title}, h("h2", title), content);

/** Cards that are shown stay as they are, so that an answer in progress is not lost. @param {HTMLElement} node */
async function showWaiting(node) {
  let rows;
  try {
    ({rows} = await page("/v1/waits", {limit: 100}));
  } catch (error) {
    return void (node.querySelector(".error-block") ?? node.prepend(errorBlock(error)));
  }
  node.querySelector(".error-block")?.remove();
  const list = rows.map(waitOfRow);
  showWaits(list.length);
  const shown = new Map([...node.querySelectorAll("w-wait")].map((card) => [card.getAttribute("data-wait"), card]));
  const ids = new Set(list.map((wait) => wait.id));
  for (const [id, card] of shown) if (!ids.has(id ?? "")) card.remove();
  const fresh = list.filter((wait) => !shown.has(wait.id));
  if (!list.length) return fill(node, emptyBlock("Nothing waits for you. Approvals and questions of all agents appear here. Try the demonstration:", 'windlass run "What is in this directory?"'));
  node.querySelector(".empty")?.remove();
  // Other cards are not moved, so that nothing slides below the pointer.
  for (const wait of fresh) node.append(waitCard(wait));
  if (fresh.length) announce(`${plural(fresh.length, "request")} waiting for you`, true);
}

/** @param {HTMLElement} node */
async function showRunning(node) {
  const {rows} = await page("/v1/runs", {status: "in_progress,waiting", limit: 20});
  if (!rows.length) return fill(node, note("No run is active."));
  const lines = rows.map((run) =>
    h(
      "li",
      statusOf(run),
      h("a.clip.grow", {href: run.thread_id ? href("threads", run.thread_id) : href("runs", "", {run: run.id})}, line(run.intent, 120) || shortId(run.id)),
      since(run.started_at),
    ),
  );
  fill(node, h("ul.rows", lines), h("p", h("a", {href: href("runs")}, "All activity")));
}

/** @param {HTMLElement} node */
async function showToday(node) {
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  const {totals} = await get("/v1/usage", {since: midnight.toISOString()});
  const unpriced = totals.unpriced_turns ? h("p.warn", `⚠ ${plural(totals.unpriced_turns, "turn")} without a known price`) : null;
  fill(node, h("p", h("span.big", cost(totals.cost_usd)), " ", dim(plural(totals.turns, "turn"))), unpriced, h("a", {href: href("usage")}, "Usage"));
}

/** @param {HTMLElement} node */
async function showHealth(node) {
  const [info, workspace] = await Promise.all([get("/v1/runtime/info"), get("/v1/workspace/status").catch(() => null)]);
  const rows = [
    ["Version", info.version],
    ["Address", `${info.bind_host}:${info.port}`],
    ["Directory", workspace?.workspace],
    ["Branch", workspace?.branch && `${workspace.branch}${workspace.dirty ? " (changed)" : ""}`],
  ];
  fill(node, facts(rows.map(([name, value]) => [name, line(value)])));
}
