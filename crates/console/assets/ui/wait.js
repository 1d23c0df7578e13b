// A request that waits for the user: an approval, a question, or a call that another program executes.

import {path, post} from "../model/api.js";
import {href} from "../model/route.js";
import {line, visible} from "../text/plain.js";
import {textBody} from "./body.js";
import {TIMES, remaining} from "./clock.js";
import {button, define, fill, h} from "./dom.js";
import {errorBlock, toast} from "./notice.js";
import {isLive} from "./shell.js";
import {dim, note} from "./parts.js";

// A click that was meant for something else must not decide.
const DELAY = 500;

/** @typedef {import("../model/fold.js").Wait} Wait */

/** The arguments of a call as text: a command alone as it is. @param {any} input */
export const callText = (input) => (typeof input.command === "string" && Object.keys(input).length === 1 ? input.command : JSON.stringify(input, null, 2));

class WWait extends HTMLElement {
  /** @type {Wait | null} */
  #wait = null;
  #shownAt = 0;
  #isWhole = true;
  /** @type {Element | null} */
  #text = null;
  #isSeen = false;
  #busy = false;
  #error = h("div");
  /** @type {HTMLButtonElement[]} */
  #deciding = [];
  /** One key per card: a repeated request has the first one's effect. */
  #key = crypto.randomUUID();
  #onLiveness = () => this.#update();

  connectedCallback() {
    this.tabIndex = -1;
    this.setAttribute("role", "group");
    this.addEventListener("keydown", this.#onKey);
    TIMES.addEventListener("liveness", this.#onLiveness);
  }

  disconnectedCallback() {
    this.removeEventListener("keydown", this.#onKey);
    TIMES.removeEventListener("liveness", this.#onLiveness);
    // The cards below move up, below a pointer that may be about to click.
    for (const card of document.querySelectorAll("w-wait")) if (card instanceof WWait) card.settle();
  }

  /** Switches decisions off for a moment, because the card appeared or moved. */
  settle() {
    this.#shownAt = performance.now();
    this.#update();
    setTimeout(() => this.#update(), DELAY + 20);
  }

  /** @param {Wait} wait @param {{alone?: boolean}} [options] */
  show(wait, options = {}) {
    this.#wait = wait;
    this.setAttribute("aria-label", `${wait.kind === "question" ? "Question" : "Approval"}: ${line(wait.tool_name ?? "")}`);
    const name = {approval: wait.tool_name ?? "call", question: "Question", tool_call: wait.tool_name ?? "tool", unknown_outcome: `Outcome unknown: ${wait.tool_name ?? ""}`}[wait.kind] ?? wait.kind;
    const head = h("h3", h("span", h("span.warn", {"aria-hidden": "true"}, wait.kind === "question" ? "? " : "! "), visible(line(name, 100))), remaining(wait.expires_at, "denied automatically in "));
    const where = note(h("a", {href: href("threads", wait.thread_id, {turn: wait.turn_id})}, line(wait.title, 80) || "Thread"), options.alone ? null : [" · ", h("a", {href: href("waits", wait.id, {thread: wait.thread_id})}, "Open")]);
    fill(this, head, where, this.#content(wait), this.#error);
    this.settle();
  }

  /** @param {Wait} wait */
  #content(wait) {
    if (wait.kind === "question") return this.#question(wait);
    const text = wait.arguments ? callText(wait.arguments) : (wait.description ?? "");
    const body = textBody(text, {form: "exact", label: "Arguments of the call", onWhole: () => ((this.#isWhole = true), (this.#isSeen = false), this.#update())});
    this.#isWhole = !body.querySelector(".body-bar");
    this.#text = body.querySelector(".body");
    this.#text?.addEventListener("scroll", () => this.#update());
    const why = wait.why ? h("p.why", "Why: “", visible(line(wait.why, 500)), "”") : null;
    if (wait.kind === "tool_call") return [body, why, note("A client executes this call and returns its result.")];
    const decide = (/** @type {string} */ label, /** @type {object} */ decision, /** @type {string} */ kind) => {
      const node = button(label, () => this.#decide(decision), {class: kind, "data-decision": label});
      this.#deciding.push(node);
      return node;
    };
    const reason = h("input", {type: "text", "aria-label": "Reason of the denial, which the model reads", placeholder: "Reason (the model reads it)"});
    const wider = h(
      "details.box",
      h("summary", "More choices"),
      h(
        "div.actions",
        decide("Allow for this turn", {decision: "allow", remember: true, remember_for: "turn"}, ""),
        decide("Allow for this thread", {decision: "allow", remember: true, remember_for: "thread"}, ""),
        decide("Allow this call in the project", {decision: "allow", remember: true, remember_for: "project"}, ""),
      ),
      h("div.actions", h("label.grow", reason), this.#later(button("Deny with this reason", () => this.#decide({decision: "deny", reason: reason.value}), {class: "danger"}))),
    );
    return [body, why, h("div.actions", decide("Allow once", {decision: "allow"}, "primary"), decide("Deny", {decision: "deny"}, "danger"), dim(text.length + " characters")), wider];
  }

  /** @param {HTMLButtonElement} node */
  #later(node) {
    this.#deciding.push(node);
    return node;
  }

  /** @param {Wait} wait */
  #question(wait) {
    /** @type {any[]} */
    const questions = wait.request?.questions ?? [];
    const form = h("form.question");
    questions.forEach((question, index) => {
      const name = `q${index}`;
      const options = (question.options ?? []).map((/** @type {any} */ option) =>
        h("div", h("label.check", h("input", {type: question.multi_select ? "checkbox" : "radio", name, value: option.label}), h("span", visible(line(option.label)), option.description ? dim(" – ", visible(line(option.description))) : null))),
      );
      const free = question.allow_free_text !== false ? h("input", {type: "text", name: name + "-text", "aria-label": "Other answer", placeholder: "Other answer"}) : null;
      form.append(h("fieldset", h("legend", visible(line(question.question, 2000))), options, free));
    });
    form.append(h("div.actions", this.#later(h("button.primary", "Answer")), this.#later(button("Skip", () => this.#answer(questions.map((question) => ({id: question.id, label: "", value: "", skipped: true})))))));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const data = new FormData(form);
      const answers = questions.map((question, index) => {
        const chosen = [...data.getAll(`q${index}`), data.get(`q${index}-text`)].filter((value) => typeof value === "string" && value);
        const text = chosen.join(", ");
        return text ? {id: question.id, label: text, value: text} : {id: question.id, label: "", value: "", skipped: true};
      });
      void this.#answer(answers);
    });
    return form;
  }

  #update() {
    const early = performance.now() - this.#shownAt < DELAY;
    const text = this.#text;
    // What is below the visible part of the text has not been read.
    this.#isSeen ||= !text || (text.clientHeight > 0 && text.scrollTop + text.clientHeight > text.scrollHeight - 4);
    const isRead = this.#isWhole && this.#isSeen;
    for (const node of this.#deciding) {
      const isReady = isRead || node.classList.contains("danger");
      node.disabled = early || this.#busy || !isReady || !isLive();
      node.title = isReady ? (isLive() ? "" : "There is no connection to the daemon") : "Read the whole text first";
    }
  }

  /** @param {KeyboardEvent} event */
  #onKey = (event) => {
    if (!event.shiftKey || event.ctrlKey || event.metaKey || event.target instanceof HTMLInputElement || this.#wait?.kind !== "approval") return;
    const label = {A: "Allow once", D: "Deny"}[event.key];
    if (!label) return;
    event.preventDefault();
    const node = this.#deciding.find((known) => known.dataset.decision === label);
    if (node && !node.disabled) node.click();
  };

  /** @param {object} decision */
  #decide(decision) {
    const wait = this.#wait;
    if (wait) return this.#send(() => post(path`/v1/approvals/${wait.id}`, decision, this.#key));
  }

  /** @param {object[]} answers */
  #answer(answers) {
    const wait = this.#wait;
    if (wait) return this.#send(() => post(path`/v1/user-input/${wait.thread_id}/${wait.id}`, {answers}, this.#key));
  }

  /** @param {() => Promise<any>} request */
  async #send(request) {
    if (this.#busy) return;
    this.#busy = true;
    this.#update();
    try {
      const result = await request();
      toast(result?.decision === "allow" ? "Allowed" : result?.decision === "deny" ? "Denied" : "Answered");
      this.dispatchEvent(new CustomEvent("decided", {bubbles: true, detail: this.#wait?.id}));
    } catch (error) {
      this.#busy = false;
      // The decision may change after an error, so it needs another key.
      this.#key = crypto.randomUUID();
      fill(this.#error, errorBlock(error));
      this.#update();
    }
  }
}

define("w-wait", WWait);

/** @param {Wait} wait @param {{alone?: boolean}} [options] */
export function waitCard(wait, options) {
  const card = /** @type {WWait} */ (h(/** @type {any} */ ("w-wait"), {"data-wait": wait.id}));
  card.show(wait, options);
  return card;
}
