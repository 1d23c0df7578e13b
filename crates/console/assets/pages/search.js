// Threads with some words in their title, preview, directory or model.

import {page} from "../model/api.js";
import {when} from "../model/format.js";
import {href} from "../model/route.js";
import {line} from "../text/plain.js";
import {fill, h} from "../ui/dom.js";
import {emptyBlock, load} from "../ui/notice.js";
import {status} from "../ui/status.js";

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export function show(main, {route, signal}) {
  const words = route.query.get("q") ?? "";
  const root = h("div");
  fill(main, h("h1", words ? `Threads with “${line(words, 80)}”` : "Threads"), root);
  return load(root, () => page("/v1/threads/summary", {search: words, git: false, limit: 200, include_archived: true}, signal), ({rows}) =>
    fill(
      root,
      rows.length
        ? h("ul.rows", rows.map((row) => h("li", status(row.latest_turn_status), h("a.clip", {href: href("threads", row.id)}, line(row.title, 100)), h("span.clip.grow.dim", line(row.preview, 160)), h("span.num.dim", when(row.updated_at)))))
        : emptyBlock("No thread has these words."),
    ),
  );
}
