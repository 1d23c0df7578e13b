// Parts that several pages use.

import {h} from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/** Secondary text. @param {...Child} children */
export const dim = (...children) => h("span.dim", children);

/** A paragraph of secondary text. @param {...Child} children */
export const note = (...children) => h("p.dim", children);

/** @param {Child} label @param {HTMLElement} input */
export const field = (label, input) => h("label.field", label, input);

/** Names with values; those without a value are left out. @param {[string, Child][]} rows */
export const facts = (rows) => h("dl.facts", rows.filter(([, value]) => value).map(([name, value]) => [h("dt", name), h("dd", [value])]));

/** A box that the user opens. @param {Child} summary @param {...Child} children */
export const box = (summary, ...children) => h("details.box", h("summary", summary), children);

/** A box whose content is made when it is opened. @param {Child} summary @param {() => Child} content @param {boolean} [open] */
export function lazyBox(summary, content, open = false) {
  const node = box(summary);
  const expand = () => node.open && node.childElementCount === 1 && node.append(h("div", content()));
  node.addEventListener("toggle", expand);
  node.open = open;
  expand();
  return node;
}
