// Horizontal bars, and spans on a time axis.

import {define, fill, h} from "./dom.js";

/** @typedef {{label: string, value: number, text: string, href?: string}} Bar */

/** Shows one bar for each value, with the value as text. */
export class WChart extends HTMLElement {
  /** @param {Bar[]} bars @param {string} caption */
  show(bars, caption) {
    const largest = Math.max(...bars.map((bar) => bar.value), 0);
    const rows = bars.map((bar) => {
      const fillNode = h("span", {class: "bar-fill"});
      fillNode.style.width = largest ? (100 * bar.value) / largest + "%" : "0";
      return h(
        "tr",
        {},
        h("th", {scope: "row"}, bar.href ? h("a", {href: bar.href}, bar.label) : bar.label),
        h("td", {class: "bar-cell", "aria-hidden": "true"}, fillNode),
        h("td", {class: "num"}, bar.text),
      );
    });
    fill(this, h("table", {class: "bars-table"}, h("caption", {class: "sr-only"}, caption), h("tbody", {}, rows)));
  }
}

define("w-chart", WChart);
