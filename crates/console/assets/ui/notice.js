// Messages to the user: errors in place, short notices, announcements for screen readers.

import {ApiError} from "../model/api.js";
import {button, fill, h} from "./dom.js";

const polite = h("div.sr-only", {"aria-live": "polite"});
const assertive = h("div.sr-only", {"aria-live": "assertive"});
const toasts = h("div.toasts");
let lastPolite = 0;

/** Adds the regions to the page. @param {ParentNode} root */
export const mountNotices = (root) => root.append(polite, assertive, toasts);

/** Announces a change; at most one in five seconds, except urgent ones. @param {string} text @param {boolean} [urgent] */
export function announce(text, urgent = false) {
  if (urgent) return void (assertive.textContent = text);
  if (Date.now() - lastPolite < 5000) return;
  lastPolite = Date.now();
  polite.textContent = text;
}

/** Shows a notice for some seconds. @param {string} text @param {"ok" | "bad"} [kind] */
export function toast(text, kind = "ok") {
  const node = h("div", {class: "toast " + kind, role: kind === "bad" ? "alert" : "status"}, text);
  toasts.append(node);
  setTimeout(() => node.remove(), kind === "bad" ? 10_000 : 4000);
}

/** The text of an error. @param {unknown} error */
export const errorText = (error) => (error instanceof Error ? error.message : String(error));

/** A block that reports an error and offers a retry. @param {unknown} error @param {() => void} [retry] */
export function errorBlock(error, retry) {
  const details = error instanceof ApiError ? [error.code, error.request && "request " + error.request].filter(Boolean).join(", ") : "";
  return h(
    "div.error-block",
    {role: "alert"},
    h("p", "✗ ", errorText(error)),
    details ? h("p.dim.mono", details) : null,
    retry ? button("Try again", retry) : null,
  );
}

/** A block for a list without rows: how to fill it, with the command to copy. @param {string} text @param {string} [command] */
export const emptyBlock = (text, command) =>
  h("div.empty", h("p", text), command ? h("pre.code", {tabindex: "0"}, h("code", command)) : null);

/**
 * Loads data into a node: grey bars after 150 ms, an error with a retry, or the result.
 * @template T @param {HTMLElement} node @param {() => Promise<T>} read @param {(value: T) => unknown} show @returns {Promise<void>}
 */
export async function load(node, read, show) {
  const bars = setTimeout(() => node.childElementCount || fill(node, h("div.bars", {"aria-label": "Loading"}, h("i"), h("i"), h("i"))), 150);
  try {
    show(await read());
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) fill(node, errorBlock(error, () => void load(node, read, show)));
  } finally {
    clearTimeout(bars);
  }
}
