// A thread: its conversation, its record, and the views of one turn.

import {get, path, post, send, threadWith} from "../model/api.js";
import {Talk} from "../model/fold.js";
import {cost, count} from "../model/format.js";
import {href, setQuery} from "../model/route.js";
import {subscribe} from "../model/socket.js";
import {line} from "../text/plain.js";
import {save} from "../ui/body.js";
import {button, fill, h, perFrame} from "../ui/dom.js";
import {errorBlock, errorText, load, toast} from "../ui/notice.js";
import {status} from "../ui/status.js";
import {composer} from "./composer.js";
import {eventsView} from "./events.js";
import {filesView} from "./files.js";
import {requestView} from "./request.js";
import {talkView} from "./talk.js";
import {waterfallView} from "./waterfall.js";

/**
 * A view of a thread. `draw` is called after events, at most once per frame.
 * @typedef {{draw: () => void, keys?: import("../ui/keys.js").Bindings, end?: () => void}} View
 * @typedef {{talk: Talk, older: (turns: number) => Promise<void>, context: import("../boot.js").Context, select: (changes: Record<string, string | number | null>) => void}} ThreadPage
 */

const VIEWS = /** @type {const} */ ([
  ["talk", "Talk", talkView],
  ["events", "Events", eventsView],
  ["waterfall", "Waterfall", waterfallView],
  ["request", "Request", requestView],
  ["files", "Files", filesView],
]);

// A check reads all records: of a longer thread only on request.
const MAX_CHECKED = 50_000;

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export async function show(main, context) {
  const {id, query} = context.route;
  const target = path`/v1/threads/${id}`;
  main.className = "fixed";
  fill(main);
  await load(main, () => threadWith(id, query.get("turn"), context.signal), (detail) => mount(main, context, target, new Talk(detail), query));
}

/** @param {HTMLElement} main @param {import("../boot.js").Context} context @param {string} target @param {Talk} talk @param {URLSearchParams} query */
function mount(main, context, target, talk, query) {
  const title = h("h1.clip");
  const facts = h("span.actions");
  const badge = button("… chain", () => void verify(), {class: "plain", title: "Check the chain of digests again. It shows whether this daemon's records were changed, not whether an agent reported the truth."});
  const box = h("div.view");
  /** @type {View | null} */
  let view = null;

  const drawHead = () => {
    const turns = [...talk.turns.values()];
    const last = turns.at(-1);
    const name = talk.thread.title || last?.input_summary || "Thread";
    const sum = turns.reduce((total, turn) => total + (turn.usage?.cost_usd ?? 0), 0);
    title.textContent = line(name, 200);
    context.title(line(name, 60));
    fill(facts, status(talk.waits.size ? "waiting" : last?.status), h("span.mono", line(talk.thread.model, 60)), sum ? h("span.num", {title: "Turns that are loaded"}, cost(sum)) : null, talk.thread.parent ? h("a", {href: href("threads", talk.thread.parent.thread_id)}, "Parent") : null);
    tabs[1]?.replaceChildren(`Events ${count(talk.seq)}`);
  };
  const draw = perFrame(() => {
    drawHead();
    view?.draw();
    bottom.draw();
    talk.changed.clear();
  });
  /** @param {Record<string, string | number | null>} changes */
  const select = (changes) => {
    setQuery(changes);
    if ("view" in changes) open(String(changes.view));
  };
  /** @type {ThreadPage} */
  const page = {
    talk,
    context,
    select,
    older: async (turns) => {
      const detail = await get(target, {turns}, context.signal);
      const fresh = new Talk(detail);
      talk.turns = new Map([...fresh.turns, ...talk.turns].sort(([, a], [, b]) => (a.created_at < b.created_at ? -1 : 1)));
      for (const [item, value] of fresh.items) if (!talk.items.has(item)) talk.items.set(item, value);
    },
  };
  /** @param {string} name */
  const open = (name) => {
    const found = VIEWS.find(([known]) => known === name) ?? VIEWS[0];
    view?.end?.();
    fill(box);
    view = found[2](box, page);
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(VIEWS[at]?.[0] === found[0]));
      tab.tabIndex = VIEWS[at]?.[0] === found[0] ? 0 : -1;
    });
    context.keys({t: ["Switch between talk and events", () => select({view: found[0] === "talk" ? "events" : "talk"})], ...view.keys});
    draw();
  };
  const tabs = VIEWS.map(([name, label]) => button(label, () => select({view: name}), {role: "tab"}));
  const list = h("div", {role: "tablist", "aria-label": "Views"}, tabs);
  list.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    const next = step && tabs[(tabs.indexOf(/** @type {HTMLButtonElement} */ (event.target)) + step + tabs.length) % tabs.length];
    if (next) (next.focus(), next.click());
  });
  const verify = async () => {
    badge.textContent = "… chain";
    try {
      const result = await post(target + "/verify");
      const broken = result.damaged_seq !== undefined || result.findings.length > 0;
      badge.textContent = broken ? `✗ chain at ${count(result.damaged_seq ?? result.verified_seq)}` : `✓ chain to ${count(result.verified_seq)}`;
      badge.className = "plain " + (broken ? "bad" : "ok");
    } catch (error) {
      badge.textContent = "chain not checked";
      badge.title = errorText(error);
    }
  };
  const download = button("Export", async () => {
    try {
      save(await (await send("GET", target + "/export")).text(), id(talk) + ".jsonl");
    } catch (error) {
      toast(errorText(error), "bad");
    }
  }, {class: "only-wide"});
  const bottom = composer(page);
  fill(main, h("div.thread-head", title, facts, h("span.actions", badge, download)), list, box, bottom.root);
  open(query.get("view") ?? (query.get("at") ? "events" : "talk"));
  void verify();
  /** A gap means that retention removed records: the state is read again. */
  const gap = () => void get(target, {turns: 20}).then((detail) => {
    Object.assign(talk, new Talk(detail));
    for (const changed of [...talk.turns.keys(), ...talk.items.keys(), "waits"]) talk.changed.add(changed);
    draw();
  }).catch((error) => fill(box, errorBlock(error)));
  const end = subscribe(talk.thread.id, talk.seq, (event) => {
    talk.apply(event);
    if (event.event === "turn.completed" && talk.seq < MAX_CHECKED) void verify();
    draw();
  }, gap);
  context.onLeave(() => (view?.end?.(), end()));
}

/** @param {Talk} talk @returns {string} */
const id = (talk) => talk.thread.id;
