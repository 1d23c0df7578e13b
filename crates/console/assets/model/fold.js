// The conversation of a thread: its detail, changed by each event. A fold of the events after `seq` gives the same state as a new request.

/**
 * @typedef {{id: string, kind: string, status: string, summary: string, detail?: string, metadata?: any, turn_id: string, started_at?: string, ended_at?: string}} Item
 * @typedef {{id: string, status: string, input_summary: string, created_at: string, started_at?: string, ended_at?: string, duration_ms?: number, usage?: any,
 *   effective_model?: string, error?: string, error_code?: string, item_ids: string[], waiting_for?: string[], resumed_count?: number}} Turn
 * @typedef {{kind: string, id: string, thread_id: string, turn_id: string, item_id?: string, tool_name?: string, description?: string, why?: string | null,
 *   request?: any, arguments?: any, expires_at?: string, title?: string}} Wait
 */

export class Talk {
  /** @type {any} */
  thread = {};
  /** @type {Map<string, Turn>} */
  turns = new Map();
  /** @type {Map<string, Item>} */
  items = new Map();
  /** @type {Map<string, Wait>} */
  waits = new Map();
  seq = 0;
  /** Turns and items that changed since they were drawn. @type {Set<string>} */
  changed = new Set();

  /** @param {any} detail a thread's detail, whose turns are in order */
  constructor(detail) {
    this.thread = detail.thread;
    this.seq = detail.latest_seq ?? 0;
    for (const turn of detail.turns ?? []) this.turns.set(turn.id, turn);
    for (const item of detail.items ?? []) this.items.set(item.id, item);
    for (const wait of waitsOf(detail)) this.waits.set(wait.id, wait);
  }

  get openTurn() {
    return [...this.turns.values()].findLast((turn) => turn.status === "in_progress");
  }

  /** The items of a turn in their order. @param {string} turn */
  itemsOf(turn) {
    const ids = this.turns.get(turn)?.item_ids ?? [];
    return ids.map((id) => this.items.get(id)).filter((item) => item !== undefined);
  }

  /** @param {Item} item */
  #put(item) {
    this.items.set(item.id, item);
    const turn = this.turns.get(item.turn_id);
    if (turn && !turn.item_ids.includes(item.id)) turn.item_ids = [...turn.item_ids, item.id];
    this.changed.add(item.id).add(item.turn_id);
  }

  /** @param {any} event */
  apply(event) {
    if (event.seq <= this.seq) return;
    this.seq = event.seq;
    const {payload, turn_id: turnId, item_id: itemId} = event;
    const turn = this.turns.get(turnId);
    switch (event.event) {
      case "thread.started":
      case "thread.updated":
      case "thread.forked":
        this.thread = payload.thread;
        break;
      case "turn.started":
      case "turn.completed":
        this.turns.set(turnId, {...payload.turn, item_ids: merged(turn?.item_ids, payload.turn.item_ids)});
        if (event.event === "turn.completed") this.#endWaits(turnId);
        break;
      case "turn.lifecycle":
        if (turn && payload.resumed) turn.resumed_count = payload.resumed_count ?? 1;
        break;
      case "item.started":
      case "item.completed":
      case "item.failed":
      case "item.interrupted": {
        const item = payload.item;
        if (payload.tool && !item.metadata?.tool) item.metadata = {...item.metadata, tool: payload.tool};
        this.#put(item);
        break;
      }
      case "item.delta": {
        const item = this.items.get(itemId);
        if (item) item.detail = (item.detail ?? "") + payload.delta;
        if (item) this.changed.add(itemId);
        break;
      }
      case "approval.required":
        this.#wait(approval(payload, this.#own));
        break;
      case "user_input.required":
        this.#wait(question(payload, this.#own));
        break;
      case "tool_call.requested":
        this.#wait(toolCall(payload, this.#own));
        break;
      case "approval.decided":
        this.#end(payload.approval_id);
        break;
      case "user_input.answered":
      case "user_input.canceled":
        this.#end(payload.input_id);
        break;
      case "tool_call.resolved":
      case "tool_call.timeout":
      case "tool_call.canceled":
        this.#end(payload.call_id);
        break;
    }
    if (turnId) this.changed.add(turnId);
  }

  get #own() {
    return {thread_id: this.thread.id, title: this.thread.title};
  }

  /** @param {Wait} wait */
  #wait(wait) {
    this.waits.set(wait.id, wait);
    const turn = this.turns.get(wait.turn_id);
    if (turn) turn.waiting_for = [wait.kind];
    this.changed.add("waits");
  }

  /** @param {string} id */
  #end(id) {
    const turn = this.turns.get(this.waits.get(id)?.turn_id ?? "");
    if (!this.waits.delete(id)) return;
    if (turn && ![...this.waits.values()].some((wait) => wait.turn_id === turn.id)) turn.waiting_for = [];
    this.changed.add("waits");
  }

  /** @param {string} turn */
  #endWaits(turn) {
    for (const wait of this.waits.values()) if (wait.turn_id === turn) this.#end(wait.id);
  }
}

/** @param {string[] | undefined} known @param {string[] | undefined} given */
const merged = (known = [], given = []) => [...new Set([...known, ...given])];

/** The arguments of a call, which its description ends with. @param {any} wait */
function argumentsOf(wait) {
  const start = wait.tool_name + " ";
  if (typeof wait.description !== "string" || !wait.description.startsWith(start)) return undefined;
  try {
    const text = wait.description.slice(start.length);
    const value = JSON.parse(text);
    // A value that JavaScript changes, such as a large integer, is shown as the daemon wrote it.
    return JSON.stringify(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

/** @param {any} call @param {object} thread @returns {Wait} */
const approval = (call, thread) => ({...call, ...thread, kind: "approval", why: call.intent_summary, arguments: argumentsOf(call)});
/** @param {any} question @param {object} thread @returns {Wait} */
const question = (question, thread) => ({...question, ...thread, kind: "question"});
/** @param {any} call @param {object} thread @returns {Wait} */
const toolCall = (call, thread) => ({...call, ...thread, kind: "tool_call", id: call.call_id, tool_name: call.tool});

/** The waits of a thread's detail in one form. @param {any} detail @param {any} [thread] @returns {Wait[]} */
export function waitsOf(detail, thread = detail.thread) {
  const of = {thread_id: thread.id, title: thread.title};
  return [
    ...(detail.pending_approvals ?? []).map((/** @type {any} */ wait) => approval(wait, of)),
    ...(detail.pending_user_inputs ?? []).map((/** @type {any} */ wait) => question(wait, of)),
    ...(detail.pending_dynamic_tool_calls ?? []).map((/** @type {any} */ wait) => toolCall(wait, of)),
  ];
}

/** A row of the list of all waits in the same form. @param {any} row @returns {Wait} */
export function waitOfRow(row) {
  const of = {thread_id: row.thread_id, title: row.thread_title, turn_id: row.turn_id};
  if (row.approval) return approval(row.approval, of);
  if (row.user_input) return question(row.user_input, of);
  return toolCall(row.tool_call ?? {}, of);
}
