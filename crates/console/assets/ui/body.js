// A text of any size: its beginning, with buttons for more of it and for a file.

import {size, count} from "../model/format.js";
import {ansi} from "../text/ansi.js";
import {SHOWN, cut, visible} from "../text/plain.js";
import {button, fill, h} from "./dom.js";

/**
 * Shows a text in a box.
 * @param {string} text @param {{form?: "ansi" | "exact", label?: string, name?: string, onWhole?: () => void}} [options]
 */
export function textBody(text, options = {}) {
  const render = (/** @type {string} */ part) => (options.form === "exact" ? visible(part) : ansi(part));
  const box = h("pre.body", {tabindex: "0", role: "region", "aria-label": options.label ?? "Text"});
  const bar = h("p.body-bar");
  let shown = Math.min(SHOWN, text.length);
  // A block per part: a browser lays out many short blocks faster than a long one.
  const add = (/** @type {number} */ from, /** @type {number} */ to) => box.append(h("span.part", render(text.slice(from, to))));
  const draw = () => {
    if (shown >= text.length) {
      bar.remove();
      return options.onWhole?.();
    }
    fill(
      bar,
      `${count(shown)} of ${count(text.length)} characters (${size(text.length)}) `,
      button("Show more", () => {
        const next = cut(text, Math.min(text.length, shown + 4 * SHOWN)).length;
        add(shown, next);
        shown = next;
        draw();
      }),
      button("Save as a file", () => save(text, options.name ?? "text.txt")),
    );
  };
  shown = cut(text, shown).length;
  add(0, shown);
  const root = h("div.body-root", box, bar);
  draw();
  return root;
}

/** Saves a text that the page already has. @param {string} text @param {string} name */
export function save(text, name) {
  const url = URL.createObjectURL(new Blob([text], {type: "application/octet-stream"}));
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Copies a text and reports it. @param {string} text @param {(message: string) => void} report */
export const copy = (text, report) => navigator.clipboard?.writeText(text).then(() => report("Copied"), () => report("The browser refused to copy"));
