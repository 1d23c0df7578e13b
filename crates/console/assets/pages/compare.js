// What-if: the same turn with another model or prompt, next to the original. The original thread is unchanged.

import {get, path, post, threadWith} from "../model/api.js";
import {Talk} from "../model/fold.js";
import {between, cost, duration} from "../model/format.js";
import {href, setQuery} from "../model/route.js";
import {subscribe} from "../model/socket.js";
import {compare, diffText} from "../text/diff.js";
import {line} from "../text/plain.js";
import {openDialog} from "../ui/dialog.js";
import {button, fill, h, perFrame} from "../ui/dom.js";
import {errorBlock, load} from "../ui/notice.js";
import {statusOf} from "../ui/status.js";
import {itemNode} from "./talk.js";
import {diffView} from "../ui/diff.js";
import {note} from "../ui/parts.js";

/** @typedef {{talk: Talk, turn: string}} Side */

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export function show(main, context) {
  const [a, b] = ["a", "b"].map((name) => context.route.query.get(name));
  fill(main);
  if (!a) return fill(main, h("h1", "What-if"), h("p", "Open a turn of a thread and choose What-if."));
  return load(main, async () => {
    const first = await read(a, context);
    const [models, config, second] = await Promise.all([get("/v1/models"), get("/v1/config"), b ? read(b, context) : null]);
    return {first, second, models: /** @type {string[]} */ (models.models), provider: config.provider};
  }, (found) => mount(main, context, a, found.first, found.second, found.models));
}

/** @param {string} address thread and turn @param {import("../boot.js").Context} context @returns {Promise<Side>} */
async function read(address, {signal}) {
  const [thread = "", turn = ""] = address.split(":");
  return {talk: new Talk(await threadWith(thread, turn, signal)), turn};
}

/** @param {HTMLElement} main @param {import("../boot.js").Context} context @param {string} address @param {Side} first @param {Side | null} second @param {string[]} models */
function mount(main, context, address, first, second, models) {
  const turn = first.talk.turns.get(first.turn);
  const root = h("div.compare", {"data-side": "a"});
  const errors = h("div");
  const draw = perFrame(() => drawSides(root, first, second));
  const follow = (/** @type {Side} */ side) => context.onLeave(subscribe(side.talk.thread.id, side.talk.seq, (event) => (side.talk.apply(event), draw())));
  const model = h("input", {type: "text", list: "models", placeholder: "Model", "aria-label": "Model", value: models.find((known) => known !== turn?.effective_model) ?? turn?.effective_model ?? "", size: "24"});
  const prompt = h("input", {type: "text", placeholder: "Prompt (the same if empty)", "aria-label": "Prompt", class: "grow"});
  const start = h("button.primary", "Run it");
  const form = h("form.filters", model, h("datalist", {id: "models"}, models.map((known) => h("option", {value: known}))), prompt, start);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    try {
      // Files stay as they are: a second run in the same directory would meet the changes of the first.
      const result = await post(path`/v1/threads/${first.talk.thread.id}/retry`, {turn_id: first.turn, model: model.value.trim() || undefined, prompt: prompt.value.trim() || undefined});
      const other = `${result.thread.id}:${result.turn.id}`;
      second = await read(other, context);
      setQuery({b: other});
      follow(second);
      fill(errors);
      draw();
    } catch (error) {
      fill(errors, errorBlock(error));
    }
    start.disabled = false;
  });
  const sides = ["a", "b"].map((side) => button(side.toUpperCase(), () => (root.dataset.side = side)));
  fill(
    main,
    h("h1.clip", "What-if: ", line(turn?.input_summary, 120)),
    note("Runs the turn again in a thread of its own, which shares the history before it. ", h("strong", "Both threads use the same directory"), ": calls that change something ask for your approval again."),
    form,
    errors,
    h("div.actions.only-narrow", sides),
    root,
  );
  follow(first);
  if (second) follow(second);
  drawSides(root, first, second);
}

/** @param {Side} side */
const steps = ({talk, turn}) => talk.itemsOf(turn).filter((item) => item.kind !== "user_message" && item.kind !== "agent_reasoning");

/** @param {import("../model/fold.js").Item} item */
const essence = (item) => `${item.kind} ${item.metadata?.tool?.name ?? ""} ${JSON.stringify(item.metadata?.tool?.input ?? item.detail ?? "")}`;

/** @param {HTMLElement} root @param {Side} first @param {Side | null} second */
function drawSides(root, first, second) {
  const head = (/** @type {Side} */ side, /** @type {string} */ name) => {
    const turn = side.talk.turns.get(side.turn);
    return h("div", {class: "panel " + name.toLowerCase()}, h("strong", name), " ", h("a", {href: href("threads", side.talk.thread.id, {turn: side.turn})}, line(turn?.effective_model ?? side.talk.thread.model, 40)), " ", statusOf(turn), " ", h("span.num", cost(turn?.usage?.cost_usd), " ", duration(turn?.duration_ms ?? between(turn?.started_at, turn?.ended_at))));
  };
  if (!second) return fill(root, head(first, "A"), h("div.b"), steps(first).map((item) => [h("div.a", itemNode(item)), h("div.b")]));
  const rows = compare(steps(first), steps(second), (x, y) => essence(x) === essence(y));
  const [from, to] = [first, second].map((side) => steps(side).findLast((item) => item.kind === "agent_message")?.detail ?? "");
  const answers = button("Compare the answers", () => openDialog("Answers", diffView(diffText(from ?? "", to ?? ""), "Answers"), "sheet"));
  fill(
    root,
    head(first, "A"),
    head(second, "B"),
    rows.map(({kind, left, right}) => [h("div", {class: "a " + (kind === "same" ? "equal" : "differs")}, left ? itemNode(left) : null), h("div", {class: "b " + (kind === "same" ? "equal" : "differs")}, right ? itemNode(right) : null)]),
    h("p", answers, second.talk.waits.size ? h("a", {href: href("threads", second.talk.thread.id)}, " B waits for your decision") : null),
  );
}
