// One request that waits, with the last messages before it.

import {get, path, page} from "../model/api.js";
import {waitOfRow, waitsOf} from "../model/fold.js";
import {href} from "../model/route.js";
import {line} from "../text/plain.js";
import {fill, h} from "../ui/dom.js";
import {load} from "../ui/notice.js";
import {waitCard} from "../ui/wait.js";
import {box, dim} from "../ui/parts.js";

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export function show(main, {route}) {
  const root = h("div.narrow");
  fill(main, root);
  const ended = () => fill(root, h("h1", "Decided"), h("p", "This request no longer waits for a decision."), h("p", h("a", {href: href("inbox")}, "Inbox")));
  return load(root, () => find(route.id, route.query.get("thread")), (found) => {
    if (!found) return ended();
    const before = found.items.slice(-3).map((item) => h("li", dim(item.kind.replaceAll("_", " ")), h("span.clip.grow", line(item.detail ?? item.summary, 300))));
    const card = waitCard(found.wait, {alone: true});
    card.addEventListener("decided", ended);
    fill(
      root,
      h("h1", found.wait.kind === "question" ? "Answer this question" : "Allow this call?"),
      card,
      before.length ? box("Last messages", h("ul.rows", before)) : null,
      found.wait.arguments ? box("All arguments", h("pre.code", line(found.wait.arguments, 4000))) : null,
    );
    card.focus();
  });
}

/** @param {string} id @param {string | null} thread */
async function find(id, thread) {
  let owner = thread;
  if (!owner) {
    const {rows} = await page("/v1/waits", {limit: 200});
    owner = rows.map(waitOfRow).find((wait) => wait.id === id)?.thread_id ?? null;
  }
  if (!owner) return null;
  const detail = await get(path`/v1/threads/${owner}`, {turns: 1});
  const wait = waitsOf(detail).find((known) => known.id === id);
  return wait ? {wait, items: /** @type {import("../model/fold.js").Item[]} */ (detail.items).filter((item) => item.id !== wait.item_id)} : null;
}
