// Requests to the model, one for each call of a turn: what was new, which tools were offered, usage and timing.

import {count, cost, duration} from "../model/format.js";
import {line} from "../text/plain.js";
import {textBody} from "../ui/body.js";
import {button, fill, h} from "../ui/dom.js";
import {load} from "../ui/notice.js";
import {recordsOfTurn, turnMenu} from "./waterfall.js";

/** @param {HTMLElement} box @param {import("./thread.js").ThreadPage} page @returns {import("./thread.js").View} */
export function requestView(box, page) {
  const root = h("div", {class: "scroll"});
  const turn = turnMenu(box, page, (chosen) => page.select({turn: chosen, view: "request"}));
  box.append(root);
  const show = () => turn && load(root, () => recordsOfTurn(page.talk.thread.id, turn, {kinds: "llm.generation,input.message,turn.started,turn.steered,tool.completed,output.message.completed"}), (rows) => draw(root, rows, page));
  void show();
  return {draw: () => void 0};
}

/** @param {HTMLElement} root @param {import("../model/records.js").Row[]} rows @param {import("./thread.js").ThreadPage} page */
function draw(root, rows, page) {
  /** @type {import("../model/records.js").Row[]} */
  let fresh = [];
  /** @type {string[]} */
  let offered = [];
  const calls = [];
  for (const row of rows) {
    if (row.kind !== "llm.generation") {
      fresh.push(row);
      continue;
    }
    const {metadata = {}, prompt = {}, tools = []} = row.data ?? {};
    const usage = metadata.usage ?? {};
    const [added, removed] = [tools.filter((/** @type {string} */ name) => !offered.includes(name)), offered.filter((name) => !tools.includes(name))];
    const facts = [
      ["Model", `${metadata.provider ?? ""} ${metadata.model ?? ""}`],
      ["Messages", count(prompt.message_count ?? 0)],
      ["Tokens", `${count(usage.input_tokens ?? 0)} in, ${count(usage.cache_read_tokens ?? 0)} of them from the cache, ${count(usage.output_tokens ?? 0)} out`],
      ["Cost", cost(usage.actual_cost_usd ?? usage.estimated_cost_usd)],
      ["Time", `${duration(metadata.duration_ms)}, first token after ${duration(metadata.time_to_first_token_ms)}`],
      ["Retries", metadata.retry ? `${metadata.retry.retries}: ${metadata.retry.last_error ?? ""}` : ""],
      ["Error", metadata.error],
      ["Prompt digest", prompt.digest],
    ];
    calls.push(
      h(
        "section",
        {class: "panel", "aria-label": `Model call ${calls.length + 1}`},
        h("h2", {}, `Call ${calls.length + 1} `, button(`event ${count(row.seq)}`, () => page.select({at: row.seq, view: "events"}), {class: "plain"})),
        h("dl", {class: "facts"}, facts.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, line(value, 300))])),
        h("h3", {}, calls.length ? "New since the previous call" : "New in this turn"),
        fresh.length ? fresh.map(message) : h("p", {class: "dim"}, "Nothing."),
        h("details", {class: "box"}, h("summary", {}, `${tools.length} tools offered`, added.length && calls.length ? `, ${added.length} new` : "", removed.length ? `, ${removed.length} no longer` : ""), h("p", {class: "mono"}, tools.map((/** @type {string} */ name) => line(name, 80)).join(", "))),
      ),
    );
    offered = tools;
    fresh = [];
  }
  fill(root, calls.length ? calls : h("p", {class: "dim"}, "This turn has no finished model call."));
}

/** @param {import("../model/records.js").Row} row */
function message(row) {
  const box = h("details", {class: "box"}, h("summary", {}, h("span", {class: "mono dim"}, row.kind), " ", line(row.summary, 200)));
  box.addEventListener("toggle", () => box.open && box.childElementCount === 1 && box.append(textBody(JSON.stringify(row.data ?? null, null, 2), {form: "exact"})));
  return box;
}
