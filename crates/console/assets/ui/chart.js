// Horizontal bars.

import {h} from "./dom.js";

/**
 * One bar for each value, with the value as text.
 * @param {{label: string, value: number, text: string, href?: string}[]} bars @param {string} caption
 */
export function chart(bars, caption) {
  const largest = Math.max(...bars.map((bar) => bar.value), 0);
  const rows = bars.map((bar) => {
    const length = h("span.bar-fill");
    length.style.width = largest ? (100 * bar.value) / largest + "%" : "0";
    return h("tr", h("th", {scope: "row"}, bar.href ? h("a", {href: bar.href}, bar.label) : bar.label), h("td.bar-cell", {"aria-hidden": "true"}, length), h("td.num", bar.text));
  });
  return h("table.bars-table", h("caption.sr-only", caption), h("tbody", rows));
}
