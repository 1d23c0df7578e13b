// Modal dialogs that disappear when they are closed.

import {button, h} from "./dom.js";

/** @param {string} title @param {Node} content @param {string} [kind] a class */
export function openDialog(title, content, kind = "") {
  const dialog = h("dialog", {class: kind, "aria-label": title});
  dialog.append(h("div.actions", h("h2.grow", title), button("Close", () => dialog.close())), content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
