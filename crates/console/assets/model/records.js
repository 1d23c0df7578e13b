// The records of a thread in pages, of which the last used are cached.

import {get, path} from "./api.js";

const PAGE = 200;
const MAX_PAGES = 50;

/**
 * @typedef {{seq: number, kind: string, at: string, turn_id?: string, item_id?: string, step_id?: string, summary: string, failed?: boolean, bytes: number, data?: any, redacted?: boolean}} Row
 */

/** Returns one record with its content. @param {string} thread @param {number} seq @returns {Promise<Row | undefined>} */
export async function record(thread, seq) {
  const page = await get(path`/v1/threads/${thread}/records`, {after: seq - 1, limit: 1});
  return page.records[0]?.seq === seq ? page.records[0] : undefined;
}

/** All records, addressed by their number: row `index` is record `first + index`. Removed records are rows too. */
export class AllRecords {
  latest = 0;
  /** @type {Map<number, Map<number, Row>>} */
  #pages = new Map();
  /** @type {Set<number>} */
  #asked = new Set();
  /** @type {{first: number, last: number}[]} */
  #pruned = [];

  /** @param {string} thread @param {() => void} changed @param {(error: unknown) => void} failed */
  constructor(thread, changed, failed) {
    this.thread = thread;
    this.changed = changed;
    this.failed = failed;
  }

  get count() {
    return this.latest;
  }

  /** @param {number} index */
  seqAt(index) {
    return index + 1;
  }

  /** @param {number} seq */
  indexOf(seq) {
    return seq - 1;
  }

  /** @param {number} index @returns {Row | null} */
  at(index) {
    const seq = index + 1;
    const row = this.#pages.get(Math.floor(index / PAGE))?.get(seq);
    if (row) return row;
    const gap = this.#pruned.find((range) => range.first <= seq && seq <= range.last);
    return gap ? {seq, kind: "removed", at: "", summary: `${gap.first}–${gap.last} removed by retention`, bytes: 0} : null;
  }

  /** The thread has a new record. @param {number} seq */
  grow(seq) {
    if (seq <= this.latest) return;
    // The page with the end has to be read again.
    const last = Math.floor((this.latest - 1) / PAGE);
    if (this.latest % PAGE) this.#asked.delete(last);
    this.latest = seq;
  }

  /** @param {number} from @param {number} to */
  need(from, to) {
    for (let page = Math.floor(from / PAGE); page <= Math.floor(Math.max(from, to - 1) / PAGE); page++) {
      if (!this.#asked.has(page)) void this.#load(page);
    }
  }

  /** @param {number} page */
  async #load(page) {
    this.#asked.add(page);
    try {
      const answer = await get(path`/v1/threads/${this.thread}/records`, {after: page * PAGE, limit: PAGE, outline: true});
      this.latest = Math.max(this.latest, answer.latest_seq);
      this.#pruned.push(...(answer.pruned ?? []));
      const rows = answer.records.filter((/** @type {Row} */ row) => row.seq <= (page + 1) * PAGE);
      this.#pages.delete(page);
      this.#pages.set(page, new Map(rows.map((/** @type {Row} */ row) => [row.seq, row])));
      this.#forget();
      this.changed();
    } catch (error) {
      this.failed(error);
      setTimeout(() => this.#asked.delete(page), 2000);
    }
  }

  #forget() {
    for (const old of this.#pages.keys()) {
      if (this.#pages.size <= MAX_PAGES) return;
      this.#pages.delete(old);
      this.#asked.delete(old);
    }
  }
}

/** The records of some kinds, oldest first, loaded as the reader moves. */
export class SomeRecords {
  /** @type {Row[]} */
  rows = [];
  /** @type {number | undefined} */
  #next = 0;
  #busy = false;
  latest = 0;

  /** @param {string} thread @param {string} kinds @param {(row: Row) => boolean} accepts @param {() => void} changed @param {(error: unknown) => void} failed */
  constructor(thread, kinds, accepts, changed, failed) {
    this.thread = thread;
    this.kinds = kinds;
    this.accepts = accepts;
    this.changed = changed;
    this.failed = failed;
    void this.#load();
  }

  get count() {
    return this.rows.length;
  }

  /** @param {number} index */
  at(index) {
    return this.rows[index] ?? null;
  }

  /** @param {number} index */
  seqAt(index) {
    return this.rows[index]?.seq ?? 0;
  }

  /** @param {number} seq */
  indexOf(seq) {
    const found = this.rows.findIndex((row) => row.seq >= seq);
    return found < 0 ? this.rows.length - 1 : found;
  }

  /** @param {number} seq */
  grow(seq) {
    if (seq <= this.latest) return;
    this.latest = seq;
    if (this.#next === undefined) {
      this.#next = this.rows.at(-1)?.seq ?? 0;
      void this.#load();
    }
  }

  /** @param {number} _from @param {number} to */
  need(_from, to) {
    if (to > this.rows.length - PAGE / 2) void this.#load();
  }

  async #load() {
    if (this.#busy || this.#next === undefined) return;
    this.#busy = true;
    try {
      const answer = await get(path`/v1/threads/${this.thread}/records`, {after: this.#next, limit: 1000, kinds: this.kinds, outline: true});
      this.latest = Math.max(this.latest, answer.latest_seq);
      const known = this.rows.at(-1)?.seq ?? 0;
      const fresh = answer.records.filter((/** @type {Row} */ row) => row.seq > known && this.accepts(row));
      for (const row of fresh) this.rows.push(row);
      this.#next = answer.after;
      this.#busy = false;
      this.changed();
      // A page of a filter may be empty before the last one.
      if (fresh.length < 50 && this.#next !== undefined) void this.#load();
    } catch (error) {
      this.#busy = false;
      this.#next = undefined;
      this.failed(error);
    }
  }
}
