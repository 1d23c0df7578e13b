// Requests to the Runtime API. A request names its operation's path; the session is a cookie and a key that only this origin can read.

import {withQuery} from "./route.js";

const KEY = "windlass.key";

/** A response that reports an error, or no response at all (`status` 0). */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {string} request */
  constructor(status, code, message, request) {
    super(message);
    this.status = status;
    this.code = code;
    this.request = request;
  }
}

/** @type {Set<() => void>} */
const signedOut = new Set();

/** Calls back when the session has ended. @param {() => void} callback */
export const onSignedOut = (callback) => signedOut.add(callback);

/** The session's key; empty if there is no session. */
export const sessionKey = () => localStorage.getItem(KEY) ?? "";

/** @param {string} key */
export const setSessionKey = (key) => (key ? localStorage.setItem(KEY, key) : localStorage.removeItem(KEY));

/**
 * @typedef {import("./route.js").Query} Query
 * @typedef {{query?: Query, body?: unknown, idempotencyKey?: string, signal?: AbortSignal}} Options
 */

/** Percent-encodes the values of a path. @param {TemplateStringsArray} parts @param {...(string | number)} values */
export const path = (parts, ...values) => String.raw({raw: parts}, ...values.map((value) => encodeURIComponent(value)));

/** Sends a request and returns its successful response. @param {string} method @param {string} target @param {Options} options */
export async function send(method, target, options = {}) {
  /** @type {Record<string, string>} */
  const headers = {"X-Windlass-Key": sessionKey()};
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["Idempotency-Key"] = options.idempotencyKey ?? crypto.randomUUID();
  let response;
  try {
    response = await fetch(withQuery(target, options.query), {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      signal: options.signal,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The daemon does not answer.", "");
  }
  if (response.ok) return response;
  const request = response.headers.get("x-request-id") ?? "";
  const text = await response.text();
  let code = "http_" + response.status;
  let message = text.slice(0, 500) || response.statusText;
  try {
    const {error} = JSON.parse(text);
    ({code, message} = error);
  } catch {
    // Another program answered, such as a proxy: its text is the message.
  }
  if (response.status === 401) for (const callback of signedOut) callback();
  throw new ApiError(response.status, code, message, request);
}

/**
 * Sends a request and returns the JSON of its response.
 * @param {string} method @param {string} target @param {Options} [options] @returns {Promise<any>}
 */
export async function call(method, target, options) {
  const response = await send(method, target, options);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** @param {string} target @param {Query} [query] @param {AbortSignal} [signal] */
export const get = (target, query, signal) => call("GET", target, {query, signal});

/** @param {string} target @param {unknown} [body] @param {string} [idempotencyKey] */
export const post = (target, body, idempotencyKey) => call("POST", target, {body, idempotencyKey});

/** Returns a thread with its newest turns, and with another one. @param {string} thread @param {string | null} turn @param {AbortSignal} [signal] */
export async function threadWith(thread, turn, signal) {
  const detail = await get(path`/v1/threads/${thread}`, {turns: 20}, signal);
  if (turn && !detail.turns.some((/** @type {any} */ known) => known.id === turn)) {
    const one = await get(path`/v1/threads/${thread}/turns/${turn}`, {}, signal);
    detail.turns.unshift(one.turn);
    detail.items.unshift(...one.items);
  }
  return detail;
}

/** Returns a page of a list with the cursor of the next one. @param {string} target @param {Query} [query] @param {AbortSignal} [signal] */
export async function page(target, query, signal) {
  const response = await send("GET", target, {query, signal});
  return {rows: /** @type {any[]} */ (await response.json()), next: response.headers.get("x-windlass-next-cursor")};
}
