// One timer for all running times of a page.

import {clock} from "../model/format.js";
import {h} from "./dom.js";

/** Gets the event `liveness` when the connection is lost or back. */
export const TIMES = new EventTarget();

/** @type {Set<HTMLElement>} */
const ticking = new Set();

setInterval(() => {
  for (const node of ticking) {
    if (node.isConnected) tick(node);
    else if (node.dataset.seen) ticking.delete(node);
  }
}, 1000);

/** @param {HTMLElement} node */
function tick(node) {
  node.dataset.seen = "1";
  const until = Number(node.dataset.until);
  const left = until ? until - Date.now() : Date.now() - Number(node.dataset.from);
  node.textContent = (node.dataset.before ?? "") + clock(left);
}

/** Time since a moment. @param {string | null | undefined} from */
export function since(from) {
  const node = h("span.num", {"data-from": Date.parse(from ?? "") || Date.now()});
  ticking.add(node);
  tick(node);
  delete node.dataset.seen;
  return node;
}

/** Time left until a moment. @param {string | null | undefined} until @param {string} before */
export function remaining(until, before = "") {
  const end = Date.parse(until ?? "");
  if (Number.isNaN(end)) return h("span.num");
  const node = h("span.num", {"data-until": end, "data-before": before});
  ticking.add(node);
  tick(node);
  delete node.dataset.seen;
  return node;
}
