// Tokens and cost, by day, model, provider or thread.

import {get} from "../model/api.js";
import {cost, count, plural} from "../model/format.js";
import {href, setQuery} from "../model/route.js";
import {line} from "../text/plain.js";
import {save} from "../ui/body.js";
import {button, fill, h} from "../ui/dom.js";
import {emptyBlock, load} from "../ui/notice.js";
import {chart} from "../ui/chart.js";

const DAYS = [[1, "today"], [7, "7 days"], [30, "30 days"], [365, "a year"]];

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export function show(main, {route}) {
  const root = h("div");
  const choice = {by: route.query.get("by") ?? "day", days: Number(route.query.get("days")) || 30};
  const read = () => {
    const since = new Date();
    since.setHours(0, 0, 0, 0);
    since.setDate(since.getDate() - choice.days + 1);
    return load(root, () => get("/v1/usage", {group_by: choice.by, since: since.toISOString()}), (report) => draw(root, report, choice.by));
  };
  const groups = ["day", "model", "provider", "thread"].map((by) =>
    button(by, () => {
      choice.by = by;
      groups.forEach((node) => node.setAttribute("aria-pressed", String(node.textContent === by)));
      setQuery({by});
      void read();
    }, {"aria-pressed": String(by === choice.by)}),
  );
  const span = h("select", {"aria-label": "Time"}, DAYS.map(([days, label]) => h("option", {value: days, selected: days === choice.days}, label)));
  span.addEventListener("change", () => {
    choice.days = Number(span.value);
    setQuery({days: choice.days});
    void read();
  });
  fill(main, h("h1", "Usage"), h("div.filters", groups, span), root);
  return read();
}

/** @param {HTMLElement} root @param {any} report @param {string} by */
function draw(root, {totals, buckets}, by) {
  if (!buckets.length) return fill(root, emptyBlock("No turn ended in this time."));
  const priced = totals.cost_usd > 0;
  const tokens = (/** @type {any} */ row) => row.input_tokens + row.output_tokens;
  const bars = chart(buckets.slice(0, 60).map((/** @type {any} */ row) => ({label: line(row.key, 60), value: priced ? row.cost_usd : tokens(row), text: priced ? cost(row.cost_usd) : `${count(tokens(row))} tokens`, href: by === "thread" ? href("threads", row.key) : undefined})), `Usage by ${by}`);
  const columns = ["key", "turns", "input_tokens", "output_tokens", "cached_tokens", "cost_usd"];
  const csv = () => save([columns.join(","), ...buckets.map((/** @type {any} */ row) => columns.map((name) => `"${String(row[name]).replace(/^[=+@\t\r-]/, "'$&").replaceAll('"', '""')}"`).join(","))].join("\r\n"), "usage.csv");
  fill(
    root,
    h("p", h("span.big", cost(totals.cost_usd)), ` ${plural(totals.turns, "turn")}, ${count(totals.input_tokens)} tokens in, ${count(totals.output_tokens)} out `, totals.unpriced_turns ? h("span.warn", `⚠ ${plural(totals.unpriced_turns, "turn")} without a known price`) : null),
    bars,
    h("div.table-scroll", h("table", h("thead", h("tr", [by, "turns", "in", "out", "cached", "cost"].map((name, at) => h("th", {scope: "col", class: at ? "num" : ""}, name)))), h("tbody", buckets.map((/** @type {any} */ row) => h("tr", h("th", {scope: "row"}, line(row.key, 60)), [row.turns, row.input_tokens, row.output_tokens, row.cached_tokens].map((value) => h("td.num", count(value))), h("td.num", cost(row.cost_usd))))))),
    h("p", button("Save as CSV", csv)),
  );
}
