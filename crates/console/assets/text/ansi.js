// Output of programs: colours become classes, every other escape sequence is removed.

import {h} from "../ui/dom.js";

const SEQUENCE = /\u001b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])|\u009b[0-9;:?]*[@-~]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** @typedef {{colour: string, bold: boolean, dim: boolean, italic: boolean, under: boolean}} Style */

/** @returns {Style} */
const plain = () => ({colour: "", bold: false, dim: false, italic: false, under: false});

/** @param {Style} style @param {string} parameters */
function select(style, parameters) {
  const codes = parameters.split(/[;:]/).map(Number);
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index] ?? 0;
    if (code === 0) Object.assign(style, plain());
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.under = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.under = false;
    else if (code >= 30 && code <= 37) style.colour = NAMES[code - 30] ?? "";
    else if (code >= 90 && code <= 97) style.colour = NAMES[code - 90] ?? "";
    else if (code === 39) style.colour = "";
    // Other palettes have no class here; their arguments are not attributes.
    else if (code === 38 || code === 48) index += codes[index + 1] === 5 ? 2 : 4;
  }
}

/** @param {Style} style */
function classes(style) {
  const names = [];
  if (style.colour) names.push("ansi-" + style.colour);
  for (const name of /** @type {const} */ (["bold", "dim", "italic", "under"])) if (style[name]) names.push("ansi-" + name);
  return names.join(" ");
}

/** A carriage return starts the line again, as on a terminal. @param {string} text */
function overwrite(text) {
  if (!text.includes("\r")) return text;
  const rows = text.split("\n").map((row) => {
    let end = row.length;
    while (row[end - 1] === "\r") end--;
    return row.slice(row.lastIndexOf("\r", end - 1) + 1, end);
  });
  return rows.join("\n");
}

/** Renders the output of a program. @param {string} source @returns {DocumentFragment} */
export function ansi(source) {
  const fragment = document.createDocumentFragment();
  const text = overwrite(source);
  const style = plain();
  let from = 0;
  let spans = 0;
  /** @param {string} piece */
  const add = (piece) => {
    if (!piece) return;
    const names = classes(style);
    // Hostile output can change the colour at every character.
    if (names && spans++ < 5000) fragment.append(h("span", {class: names}, piece));
    else fragment.append(piece);
  };
  let buffered = "";
  for (const match of text.matchAll(SEQUENCE)) {
    buffered += text.slice(from, match.index);
    from = match.index + match[0].length;
    if (match[2] !== "m") continue;
    add(buffered);
    buffered = "";
    select(style, match[1] ?? "");
  }
  add(buffered + text.slice(from));
  return fragment;
}
