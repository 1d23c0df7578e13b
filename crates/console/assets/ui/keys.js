// Keys. Single letters can be switched off in the settings; they never act in a field.

import {preference} from "../model/prefs.js";
import {BASE, go} from "../model/route.js";
import {openDialog} from "./dialog.js";
import {h} from "./dom.js";

/** @typedef {Record<string, [string, () => void]>} Bindings key, with its description and effect */

/** @type {Bindings} */
let page = {};
let prefix = "";

/** Sets the keys of the current page. @param {Bindings} bindings */
export const bindKeys = (bindings) => void (page = bindings);

/** @type {Bindings} */
const everywhere = {
  "?": ["Show the keys", () => help()],
  "/": ["Find", () => focusFind()],
  "g i": ["Open the inbox", () => go(BASE + "/")],
  "g a": ["Open the activity", () => go(BASE + "/runs")],
  "g j": ["Open the jobs", () => go(BASE + "/jobs")],
  "g u": ["Open the usage", () => go(BASE + "/usage")],
  y: ["Copy the link", () => navigator.clipboard?.writeText(location.href)],
};

function focusFind() {
  const field = document.querySelector('main input[type="search"], header input[type="search"]');
  if (field instanceof HTMLElement) field.focus();
}

/** @param {EventTarget | null} target */
const isField = (target) => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function listenForKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isField(event.target)) {
      if (event.key === "Escape" && event.target instanceof HTMLElement) event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (preference("keys") === "off" && event.key.length === 1 && !event.shiftKey) return;
    const key = prefix ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    const binding = page[key] ?? everywhere[key];
    if (binding) {
      event.preventDefault();
      binding[1]();
    } else if (event.key === "g") {
      prefix = "g";
      setTimeout(() => (prefix = ""), 1500);
    }
  });
}

/** Shows all keys. */
export function help() {
  const rows = Object.entries({...everywhere, ...page}).map(([key, [text]]) => h("tr", h("th", {scope: "row"}, h("kbd", key)), h("td", text)));
  rows.push(h("tr", h("th", {scope: "row"}, h("kbd", "Shift+A"), " ", h("kbd", "Shift+D")), h("td", "Allow or deny the focused request")));
  openDialog("Keys", h("table", h("tbody", rows)), "help");
}
