// Files that a turn changed, as its calls described the changes; and undo.

import {path, post} from "../model/api.js";
import {go, href} from "../model/route.js";
import {diffText, parseUnified} from "../text/diff.js";
import {line} from "../text/plain.js";
import {button, fill, h} from "../ui/dom.js";
import {emptyBlock, errorText, toast} from "../ui/notice.js";
import {status} from "../ui/status.js";
import {turnMenu} from "./waterfall.js";
import {diffView} from "../ui/diff.js";

/** The rows of a change, from the arguments of its call. @param {any} input @param {any} metadata @returns {import("../text/diff.js").DiffRow[]} */
function changeOf(input, metadata) {
  const text = (/** @type {unknown} */ value) => (typeof value === "string" ? value : "");
  const unified = metadata?.diff ?? input?.patch ?? input?.diff;
  if (typeof unified === "string") return parseUnified(unified);
  const edits = Array.isArray(input?.edits) ? input.edits : [input ?? {}];
  return edits.flatMap((/** @type {any} */ edit) => diffText(text(edit.old_string ?? edit.old_text ?? edit.old ?? edit.search), text(edit.new_string ?? edit.new_text ?? edit.new ?? edit.replace ?? edit.content ?? edit.text)));
}

/** @param {HTMLElement} box @param {import("./thread.js").ThreadPage} page @returns {import("./thread.js").View} */
export function filesView(box, page) {
  const {talk} = page;
  const turn = turnMenu(box, page, (chosen) => page.select({turn: chosen, view: "files"}));
  const root = h("div.scroll");
  box.append(root);
  const changes = turn ? talk.itemsOf(turn).filter((item) => item.kind === "file_change") : [];
  const isLast = turn === [...talk.turns.keys()].at(-1);
  const undo = button("Undo this turn and its files", async () => {
    if (!confirm("Create a thread without this turn, and restore the files that it changed?")) return;
    try {
      const result = await post(path`/v1/threads/${talk.thread.id}/undo`, {files: true});
      toast(`${result.files?.restored.length ?? 0} files restored`);
      go(href("threads", result.thread.id));
    } catch (error) {
      toast(errorText(error), "bad");
    }
  }, {class: "danger"});
  fill(
    root,
    changes.length
      ? changes.map((item) => {
          const input = item.metadata?.tool?.input;
          return h("section.panel", h("h2", status(item.status), " ", h("span.mono", line(item.metadata?.path ?? input?.path ?? item.summary, 200))), diffView(changeOf(input, item.metadata), "Changes"));
        })
      : emptyBlock("No tool of this turn reported a changed file. Commands can change files too: undo restores what the checkpoint contains."),
    isLast ? h("p", undo) : null,
  );
  return {draw: () => void 0};
}
