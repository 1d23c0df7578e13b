// A list that creates only the rows in sight. Rows have one height; rows that are not loaded yet are grey bars.

import {define, h, perFrame} from "./dom.js";

const ROW = 28;
const OVERSCAN = 6;
// Browsers cap the height of an element: beyond this number of pixels the scroll position is scaled.
const MAX_HEIGHT = 12_000_000;

/**
 * @typedef {{
 *   count: () => number,
 *   row: (index: number) => Node[] | null,
 *   need: (from: number, to: number) => void,
 *   key?: (index: number) => string | number,
 *   mark?: (index: number) => string,
 * }} Source
 */

export class WList extends HTMLElement {
  /** @type {Source | null} */
  #source = null;
  #active = -1;
  #frame = h("div.w-list-frame");
  #spacer = h("div.w-list-spacer");
  #draw = perFrame(() => this.#render());
  /** @type {Map<number, HTMLElement>} */
  #rows = new Map();
  #resized = new ResizeObserver(() => this.#draw());
  #label = "Rows";
  follow = false;

  connectedCallback() {
    if (!this.hasAttribute("role")) this.setAttribute("role", "listbox");
    this.setAttribute("aria-label", this.#label);
    this.tabIndex = 0;
    this.replaceChildren(this.#spacer, this.#frame);
    this.addEventListener("scroll", this.#draw);
    this.addEventListener("keydown", this.#key);
    this.addEventListener("click", this.#click);
    this.#resized.observe(this);
  }

  disconnectedCallback() {
    this.#resized.disconnect();
    this.removeEventListener("scroll", this.#draw);
    this.removeEventListener("keydown", this.#key);
    this.removeEventListener("click", this.#click);
  }

  /** @param {Source} source @param {string} label */
  show(source, label) {
    this.#source = source;
    this.#label = label;
    this.#active = -1;
    this.#rows.clear();
    this.#frame.replaceChildren();
    this.setAttribute("aria-label", label);
    this.#draw();
  }

  /** Draws new rows at the end; those in sight stay. */
  grow() {
    this.#draw();
  }

  get active() {
    return this.#active;
  }

  get #height() {
    return (this.#source?.count() ?? 0) * ROW;
  }

  /** Pixels of rows per pixel of scrolling. */
  get #scale() {
    const room = MAX_HEIGHT - this.clientHeight;
    return this.#height > MAX_HEIGHT ? (this.#height - this.clientHeight) / room : 1;
  }

  /** Makes a row the active one and scrolls to it. @param {number} index @param {{quiet?: boolean, center?: boolean}} [options] */
  select(index, options = {}) {
    const count = this.#source?.count() ?? 0;
    if (!count) return;
    const next = Math.max(0, Math.min(index, count - 1));
    const changed = next !== this.#active;
    this.#active = next;
    this.reveal(next, options.center);
    for (const [at, row] of this.#rows) this.#markActive(row, at);
    this.#draw();
    if (changed && !options.quiet) this.dispatchEvent(new CustomEvent("choose", {detail: next}));
  }

  /** @param {number} index @param {boolean} [center] */
  reveal(index, center = false) {
    this.#spacer.style.height = Math.min(this.#height, MAX_HEIGHT) + "px";
    const top = this.scrollTop * this.#scale;
    const at = index * ROW;
    let wanted = top;
    if (center) wanted = at - this.clientHeight / 2;
    else if (at < top) wanted = at;
    else if (at + ROW > top + this.clientHeight) wanted = at + ROW - this.clientHeight;
    if (wanted !== top) this.scrollTop = wanted / this.#scale;
  }

  #render() {
    const source = this.#source;
    if (!source || !this.isConnected) return;
    const count = source.count();
    this.#spacer.style.height = Math.min(this.#height, MAX_HEIGHT) + "px";
    if (this.follow) this.scrollTop = this.scrollHeight;
    const top = this.scrollTop * this.#scale;
    const from = Math.max(0, Math.floor(top / ROW) - OVERSCAN);
    const to = Math.min(count, Math.ceil((top + this.clientHeight) / ROW) + OVERSCAN);
    source.need(from, to);
    for (const [index, row] of this.#rows) {
      if (index < from || index >= to) {
        row.remove();
        this.#rows.delete(index);
      }
    }
    /** @type {HTMLElement[]} */
    const ordered = [];
    for (let index = from; index < to; index++) {
      let row = this.#rows.get(index);
      if (!row || row.dataset.loading === "true") {
        const fresh = this.#row(source, index, count);
        row?.replaceWith(fresh);
        row = fresh;
        this.#rows.set(index, row);
      }
      row.setAttribute("aria-setsize", String(count));
      ordered.push(row);
    }
    const stale = this.#frame.childElementCount !== ordered.length || ordered.some((row, at) => this.#frame.children[at] !== row);
    if (stale) this.#frame.replaceChildren(...ordered);
    // The frame moves with the scroll position, so that scaled positions stay exact.
    this.#frame.style.transform = `translateY(${this.scrollTop + from * ROW - top}px)`;
    const current = this.#rows.get(this.#active);
    if (current) this.setAttribute("aria-activedescendant", current.id);
    else this.removeAttribute("aria-activedescendant");
  }

  /** @param {Source} source @param {number} index @param {number} count */
  #row(source, index, count) {
    const content = source.row(index);
    const row = h("div", {
      class: "w-row " + (content ? (source.mark?.(index) ?? "") : "loading"),
      role: "option",
      id: `row-${source.key?.(index) ?? index}`,
      "aria-posinset": index + 1,
      "aria-setsize": count,
      "data-index": index,
      "data-loading": content ? null : "true",
    });
    if (content) row.append(...content);
    this.#markActive(row, index);
    return row;
  }

  /** @param {HTMLElement} row @param {number} index */
  #markActive(row, index) {
    row.setAttribute("aria-selected", String(index === this.#active));
  }

  /** @param {MouseEvent} event */
  #click = (event) => {
    const row = event.target instanceof Element ? event.target.closest(".w-row") : null;
    if (!(row instanceof HTMLElement)) return;
    this.select(Number(row.dataset.index));
    this.dispatchEvent(new CustomEvent("open", {detail: Number(row.dataset.index)}));
  };

  /** @param {KeyboardEvent} event */
  #key = (event) => {
    const page = Math.max(1, Math.floor(this.clientHeight / ROW) - 1);
    const count = this.#source?.count() ?? 0;
    const moves = {ArrowDown: this.#active + 1, ArrowUp: this.#active - 1, PageDown: this.#active + page, PageUp: this.#active - page, Home: 0, End: count - 1};
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) {
      event.preventDefault();
      this.follow = false;
      this.select(moves[/** @type {keyof typeof moves} */ (event.key)]);
    } else if (event.key === "Enter" && this.#active >= 0) {
      event.preventDefault();
      this.dispatchEvent(new CustomEvent("open", {detail: this.#active}));
    }
  };
}

define("w-list", WList);
