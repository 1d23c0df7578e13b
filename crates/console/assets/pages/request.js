// Requests to the model, one for each call of a turn: what was new, which tools were offered, usage and timing.

import {count, cost, duration} from "../model/format.js";
import {line} from "../text/plain.js";
import {textBody} from "../ui/body.js";
import {button, fill, h} from "../ui/dom.js";
import {load} from "../ui/notice.js";
import {recordsOfTurn, turnMenu} from "./waterfall.js";
import {box as foldable, facts, lazyBox, note} from "../ui/parts.js";

/** @param {HTMLElement} box @param {import("./thread.js").ThreadPage} page @returns {import("./thread.js").View} */
export function requestView(box, page) {
  const root = h("div.scroll");
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
    const known = [
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
        "section.panel",
        {"aria-label": `Model call ${calls.length + 1}`},
        h("h2", `Call ${calls.length + 1} `, button(`event ${count(row.seq)}`, () => page.select({at: row.seq, view: "events"}), {class: "plain"})),
        facts(known.map(([name, value]) => [name ?? "", line(value, 300)])),
        h("h3", calls.length ? "New since the previous call" : "New in this turn"),
        fresh.length ? fresh.map(message) : note("Nothing."),
        foldable([`${tools.length} tools offered`, added.length && calls.length ? `, ${added.length} new` : "", removed.length ? `, ${removed.length} no longer` : ""], h("p.mono", tools.map((/** @type {string} */ name) => line(name, 80)).join(", "))),
      ),
    );
    offered = tools;
    fresh = [];
  }
  fill(root, calls.length ? calls : note("This turn has no finished model call."));
}

/** @param {import("../model/records.js").Row} row */
function message(row) {
  return lazyBox([h("span.mono.dim", row.kind), " ", line(row.summary, 200)], () => textBody(JSON.stringify(row.data ?? null, null, 2), {form: "exact"}));
}
