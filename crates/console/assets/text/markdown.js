// A small subset of Markdown as nodes: paragraphs, headings, lists, quotes, code, emphasis and links. No HTML and no images, so nothing is loaded.

import {h} from "../ui/dom.js";
import {visible} from "./plain.js";
import {dim} from "../ui/parts.js";

const MAX_DEPTH = 6;
const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,})[^`]*$/;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])\s+(.*)$/;

/** @param {string} source @returns {DocumentFragment} */
export function markdown(source) {
  const fragment = document.createDocumentFragment();
  blocks(visible(source.replace(/\r\n?/g, "\n")).split("\n"), fragment, 0);
  return fragment;
}

/** @param {string[]} lines @param {ParentNode & Node} into @param {number} depth */
function blocks(lines, into, depth) {
  let index = 0;
  while (index < lines.length) {
    const line = lines[index] ?? "";
    const fence = FENCE.exec(line);
    const heading = /^ {0,3}(#{1,6})\s+(\S.*)$/.exec(line);
    if (!line.trim()) {
      index++;
    } else if (fence) {
      const end = closing(lines, index + 1, String(fence[1]));
      into.append(h("pre.code", {tabindex: "0"}, h("code", lines.slice(index + 1, end).join("\n"))));
      index = end + 1;
    } else if (heading) {
      // The page has its own headings of the first levels.
      into.append(h("p.md-heading", {role: "heading", "aria-level": String((heading[1]?.length ?? 1) + 2)}, inline((heading[2] ?? "").slice(0, 1000).replace(/ *#*$/, ""))));
      index++;
    } else if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) {
      into.append(h("hr"));
      index++;
    } else if (/^ {0,3}>/.test(line) && depth < MAX_DEPTH) {
      const end = run(lines, index, (next) => /^ {0,3}>/.test(next));
      const quote = h("blockquote");
      blocks(lines.slice(index, end).map((quoted) => quoted.replace(/^ {0,3}> ?/, "")), quote, depth + 1);
      into.append(quote);
      index = end;
    } else if (ITEM.test(line) && depth < MAX_DEPTH) {
      index = list(lines, index, into, depth);
    } else {
      const end = run(lines, index + 1, (next) => Boolean(next.trim()) && !FENCE.test(next) && !ITEM.test(next) && !/^ {0,3}(>|#{1,6}\s)/.test(next));
      into.append(h("p", inline(lines.slice(index, end).join("\n"))));
      index = end;
    }
  }
}

/** @param {string[]} lines @param {number} from @param {(line: string) => boolean} belongs */
function run(lines, from, belongs) {
  let end = from;
  while (end < lines.length && belongs(lines[end] ?? "")) end++;
  return Math.max(end, from);
}

/** @param {string[]} lines @param {number} from @param {string} fence */
const closing = (lines, from, fence) => run(lines, from, (line) => !(line.trim().startsWith(fence) && !line.trim().slice(fence.length).replaceAll(String(fence[0]), "")));

/** @param {string[]} lines @param {number} from @param {ParentNode & Node} into @param {number} depth */
function list(lines, from, into, depth) {
  const first = ITEM.exec(lines[from] ?? "");
  const indent = first?.[1]?.length ?? 0;
  const ordered = /\d/.test(first?.[2] ?? "");
  const parent = h(ordered ? "ol" : "ul", ordered ? {start: String(parseInt(first?.[2] ?? "1", 10))} : {});
  let index = from;
  while (index < lines.length) {
    const item = ITEM.exec(lines[index] ?? "");
    if (!item || (item[1]?.length ?? 0) < indent || /\d/.test(item[2] ?? "") !== ordered) break;
    const inner = indent + (item[2]?.length ?? 1) + 1;
    const end = run(lines, index + 1, (next) => /^\s+\S/.test(next) && next.search(/\S/) > indent && (!ITEM.test(next) || next.search(/\S/) > indent));
    const content = [item[3] ?? "", ...lines.slice(index + 1, end).map((next) => next.slice(Math.min(inner, Math.max(next.search(/\S/), 0))))];
    const node = h("li");
    if (content.length === 1) node.append(inline(content[0] ?? ""));
    else blocks(content, node, depth + 1);
    parent.append(node);
    index = end;
    while (index < lines.length && !(lines[index] ?? "").trim() && ITEM.test(lines[index + 1] ?? "")) index++;
  }
  into.append(parent);
  return Math.max(index, from + 1);
}

// One pass without nesting of the same kind: the time is linear in the length of the text.
const INLINE = /(`+)([^`]|[^`][^]*?[^`])\1(?!`)|\*\*([^*\n]{1,2000})\*\*|(?<![\w*])\*([^*\s][^*\n]{0,2000})\*(?![\w*])|(?<![\w_])_([^_\s][^_\n]{0,2000})_(?![\w_])|\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>()[\]"'`⟨⟩]{1,2000})/g;

/** @param {string} text @returns {DocumentFragment} */
function inline(text) {
  const fragment = document.createDocumentFragment();
  // An unclosed code mark makes the search quadratic; such a paragraph is shown as it is.
  if (text.length > 10_000) {
    fragment.append(text);
    return fragment;
  }
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    fragment.append(text.slice(from, match.index));
    from = match.index + match[0].length;
    const [whole, , code, strong, star, under, label, target, bare] = match;
    if (code !== undefined) fragment.append(h("code", code));
    else if (strong !== undefined) fragment.append(h("strong", strong));
    else if (star !== undefined || under !== undefined) fragment.append(h("em", star ?? under ?? ""));
    else fragment.append(link(label ?? bare ?? "", target ?? bare ?? "") ?? whole);
  }
  fragment.append(text.slice(from));
  return fragment;
}

/** A link to another site, whose address is visible unless it is the text. @param {string} label @param {string} target */
function link(label, target) {
  if (!/^https?:\/\//i.test(target) || !URL.canParse(target)) return null;
  const address = new URL(target);
  const anchor = h("a", {href: address.href, rel: "noopener noreferrer nofollow", target: "_blank", title: address.href}, label);
  const hint = label.includes(address.host) ? "" : ` (${address.host})`;
  return hint ? h("span", anchor, dim(hint)) : anchor;
}
