// Moves through the numbers of a record: a slider, buttons for single steps and a field for a number.

import {button, define, h} from "./dom.js";

export class WScrub extends HTMLElement {
  #first = 1;
  #last = 1;
  #at = 1;
  #slider = h("input", {type: "range", min: 1, max: 1, "aria-label": "Position in the record"});
  #field = h("input", {type: "number", min: 1, max: 1, "aria-label": "Number of the event", class: "seq-field", inputmode: "numeric"});

  connectedCallback() {
    const step = (/** @type {string} */ glyph, /** @type {string} */ label, /** @type {() => number} */ to) =>
      button(glyph, () => this.#choose(to()), {class: "icon", "aria-label": label, title: label});
    this.replaceChildren(
      step("|◀", "First event", () => this.#first),
      step("◀", "Previous event", () => this.#at - 1),
      this.#slider,
      step("▶", "Next event", () => this.#at + 1),
      step("▶|", "Newest event", () => this.#last),
      h("label.scrub-at", "at ", this.#field),
    );
    this.#slider.addEventListener("input", () => this.#choose(Number(this.#slider.value)));
    this.#field.addEventListener("change", () => this.#choose(Number(this.#field.value)));
  }

  /** @param {number} by */
  step(by) {
    this.#choose(this.#at + by);
  }

  /** @param {number} first @param {number} last @param {number} at */
  show(first, last, at) {
    this.#first = first;
    this.#last = Math.max(last, first);
    this.#at = Math.min(Math.max(at, first), this.#last);
    for (const input of [this.#slider, this.#field]) {
      input.min = String(first);
      input.max = String(this.#last);
      if (document.activeElement !== input || input === this.#slider) input.value = String(this.#at);
    }
    this.#slider.setAttribute("aria-valuetext", `event ${this.#at} of ${this.#last}`);
  }

  /** @param {number} seq */
  #choose(seq) {
    if (Number.isNaN(seq)) return;
    this.show(this.#first, this.#last, Math.round(seq));
    this.dispatchEvent(new CustomEvent("scrub", {detail: this.#at}));
  }
}

define("w-scrub", WScrub);
