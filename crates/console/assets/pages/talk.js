// The conversation. Changed items are drawn again; the rest of the page stays.

import {between, cost, count, duration, fullTime, when} from "../model/format.js";
import {href} from "../model/route.js";
import {markdown} from "../text/markdown.js";
import {line, visible} from "../text/plain.js";
import {textBody} from "../ui/body.js";
import {button, fill, h} from "../ui/dom.js";
import {emptyBlock, errorText, toast} from "../ui/notice.js";
import {status, statusOf} from "../ui/status.js";
import {callText, waitCard} from "../ui/wait.js";
import {lazyBox} from "../ui/parts.js";

const MAX_MARKDOWN = 100_000;
const MAX_PLAIN = 10_000;

/** @param {HTMLElement} box @param {import("./thread.js").ThreadPage} page @returns {import("./thread.js").View} */
export function talkView(box, page) {
  const {talk} = page;
  const older = button("Show older turns", () => void more());
  const turns = h("div");
  const waits = h("div");
  const scroll = h("div.scroll", {tabindex: "0", role: "region", "aria-label": "Conversation"}, older, turns, waits);
  box.append(scroll);
  /** @type {Map<string, HTMLElement>} */
  const drawn = new Map();
  let follow = true;
  let asked = 20;
  scroll.addEventListener("scroll", () => (follow = scroll.scrollTop + scroll.clientHeight > scroll.scrollHeight - 40));

  const more = async () => {
    const height = scroll.scrollHeight;
    asked += 20;
    try {
      await page.older(asked);
      draw(true);
      scroll.scrollTop += scroll.scrollHeight - height;
    } catch (error) {
      toast(errorText(error), "bad");
    }
  };
  const draw = (all = false) => {
    older.hidden = talk.turns.size < asked;
    /** @type {Node[]} */
    const nodes = [];
    for (const turn of talk.turns.values()) {
      let node = drawn.get(turn.id);
      if (!node) {
        node = h("section.turn", {id: turn.id, "aria-label": `Turn: ${line(turn.input_summary, 60)}`}, h("div.turn-head"), h("div"), h("div"));
        drawn.set(turn.id, node);
      }
      if (all || talk.changed.has(turn.id) || !node.dataset.drawn) drawTurn(node, turn);
      nodes.push(node);
    }
    if (nodes.some((node, at) => turns.children[at] !== node)) turns.replaceChildren(...nodes);
    if (!nodes.length) fill(turns, emptyBlock("This thread has no turn yet. Type a prompt below."));
    if (talk.changed.has("waits") || all) drawWaits();
    if (follow) scroll.scrollTop = scroll.scrollHeight;
  };
  /** @param {HTMLElement} node @param {import("../model/fold.js").Turn} turn */
  const drawTurn = (node, turn) => {
    const [head, items, foot] = [...node.children];
    if (!head || !items || !foot) return;
    node.dataset.drawn = "1";
    fill(head, turnHead(turn, page));
    const children = talk.itemsOf(turn.id).map((item) => {
      let child = drawn.get(item.id);
      if (!child || talk.changed.has(item.id)) {
        const fresh = itemNode(item, child);
        child?.replaceWith(fresh);
        child = fresh;
        drawn.set(item.id, child);
      }
      return child;
    });
    if (children.length !== items.childElementCount || children.some((child, at) => items.children[at] !== child)) items.replaceChildren(...children);
    fill(foot, turn.error ? h("p.error-block", "✗ ", visible(line(turn.error, 2000)), turn.error_code ? h("span.dim.mono", " ", turn.error_code) : null) : null);
  };
  const drawWaits = () => {
    const shown = new Map([...waits.querySelectorAll("w-wait")].map((card) => [card.getAttribute("data-wait"), card]));
    for (const [id, card] of shown) if (!talk.waits.has(id ?? "")) card.remove();
    for (const wait of talk.waits.values()) if (!shown.has(wait.id)) waits.append(waitCard(wait));
  };
  draw(true);
  const wanted = page.context.route.query.get("turn");
  const section = wanted && drawn.get(wanted);
  if (section) requestAnimationFrame(() => ((follow = talk.openTurn?.id === wanted), follow || section.scrollIntoView()));
  const go = (/** @type {number} */ by) => {
    const sections = [...turns.children];
    const at = sections.findIndex((node) => node.getBoundingClientRect().bottom > scroll.getBoundingClientRect().top + 8);
    sections[Math.max(0, at + by)]?.scrollIntoView();
  };
  return {draw: () => draw(), keys: {j: ["Next turn", () => go(1)], k: ["Previous turn", () => go(-1)], f: ["Follow", () => ((follow = true), draw())]}};
}

/** @param {import("../model/fold.js").Turn} turn @param {import("./thread.js").ThreadPage} page */
function turnHead(turn, page) {
  const {usage} = turn;
  const tokens = usage ? `${count(usage.input_tokens)} → ${count(usage.output_tokens)} tokens` : null;
  const ended = !["in_progress", "queued"].includes(turn.status);
  return [
    statusOf(turn),
    turn.resumed_count ? h("span.warn", "↻ resumed after a restart") : null,
    h("span.mono", line(turn.effective_model, 40)),
    h("span.num", {title: fullTime(turn.created_at)}, when(turn.created_at)),
    ended ? h("span.num", duration(turn.duration_ms ?? between(turn.started_at, turn.ended_at))) : null,
    tokens ? h("span.num", tokens) : null,
    usage ? h("span.num", cost(usage.cost_usd)) : null,
    button("Waterfall", () => page.select({turn: turn.id, view: "waterfall"}), {class: "plain"}),
    ended ? h("a", {href: href("compare", "", {a: `${page.talk.thread.id}:${turn.id}`})}, "What-if") : null,
  ];
}

/** @param {import("../model/fold.js").Item} item @param {HTMLElement} [before] the node that this one replaces */
export function itemNode(item, before) {
  const text = item.detail ?? item.summary ?? "";
  const streaming = item.status === "in_progress" ? " streaming" : "";
  if (item.kind === "user_message") return h("div.item.user", text.length > MAX_PLAIN ? textBody(text) : visible(text));
  const body = () => (text.length > MAX_MARKDOWN ? textBody(text) : markdown(text));
  if (item.kind === "agent_message") {
    return h("div", {class: "item md" + streaming}, body(), item.status === "interrupted" ? h("p.warn", "■ cut off") : null);
  }
  if (item.kind === "context_compaction" || item.kind === "status") return h("div.item.mark", visible(line(item.summary || text, 500)));
  const open = before?.querySelector("details")?.open;
  const tool = item.metadata?.tool;
  const thinks = item.kind === "agent_reasoning";
  const name = thinks ? "Thinking" : (tool?.name ?? item.kind.replaceAll("_", " "));
  const input = tool?.input;
  const subject = input?.command ?? input?.path ?? input?.pattern ?? input?.url ?? (input && Object.keys(input).length ? JSON.stringify(input) : "");
  const summary = [thinks ? "" : status(item.status), " ", h("strong", visible(line(name, 80))), " ", h("code", line(subject, 160)), " ", h("span.dim.num", duration(item.metadata?.duration_ms ?? between(item.started_at, item.ended_at)))];
  const content = () => [
    input && Object.keys(input).length ? textBody(callText(input), {form: "exact", label: "Arguments"}) : null,
    thinks ? h("div.md.dim", body()) : item.detail ? textBody(item.detail, {label: "Output", name: item.id + ".txt"}) : null,
  ];
  return h("div", {class: "item" + (thinks ? streaming : "")}, lazyBox(summary, content, open));
}
