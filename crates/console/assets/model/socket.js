// One WebSocket per tab. A lost connection is opened again with the same cursors, so no event is missed.

import {get, sessionKey} from "./api.js";
import {BASE} from "./route.js";

const FIRST_DELAY = 1000;
const MAX_DELAY = 30_000;

/**
 * @typedef {{live: boolean, since: number, reason: string}} Liveness
 * @typedef {{thread: string, cursor: number, onEvent: (event: any) => void, onGap?: () => void}} Subscription
 */

/** @type {WebSocket | null} */
let socket = null;
/** @type {Set<Subscription>} */
const subscriptions = new Set();
/** @type {Set<(state: Liveness) => void>} */
const watchers = new Set();
/** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */
const pending = new Map();
/** @type {Set<(method: string, params: any) => void>} */
const notified = new Set();
/** @type {Liveness} */
let state = {live: false, since: 0, reason: "connecting"};
let nextId = 1;
let delay = FIRST_DELAY;
let timer = 0;
let wanted = false;

/** @param {Partial<Liveness>} change */
function setState(change) {
  const next = {...state, ...change};
  if (next.live === state.live && next.reason === state.reason) return;
  if (next.live !== state.live) next.since = Date.now();
  state = next;
  for (const watcher of watchers) watcher(state);
}

export const liveness = () => state;

/** @param {(state: Liveness) => void} watcher @returns {() => void} removes the watcher */
export function watchLiveness(watcher) {
  watchers.add(watcher);
  watcher(state);
  return () => void watchers.delete(watcher);
}

/** Calls back for every notification that is not an event of a thread. @param {(method: string, params: any) => void} callback */
export function onNotification(callback) {
  notified.add(callback);
  return () => void notified.delete(callback);
}

/** Opens the connection, and opens it again whenever it is lost. */
export function connect() {
  wanted = true;
  if (socket) return;
  clearTimeout(timer);
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/rpc`);
  socket = opened;
  opened.addEventListener("open", () => void authenticate(opened));
  opened.addEventListener("message", ({data}) => opened === socket && receive(String(data)));
  opened.addEventListener("close", ({reason}) => opened === socket && lost(reason));
}

/** Closes the connection and opens no other. */
export function disconnect() {
  wanted = false;
  clearTimeout(timer);
  const closing = socket;
  socket = null;
  failPending();
  closing?.close();
  setState({live: false, reason: "signed out"});
}

/** @param {WebSocket} opened */
async function authenticate(opened) {
  try {
    // A daemon without tokens requires no login.
    if (sessionKey()) await request("session.auth", {key: sessionKey()});
    if (opened !== socket) return;
    await Promise.all([...subscriptions].map(start));
    delay = FIRST_DELAY;
    setState({live: true, reason: ""});
  } catch (error) {
    if (opened !== socket) return;
    opened.close(4000, String(error));
    // The answer 401 shows the login: only a session that ended is refused here.
    void get(BASE + "/session").catch(() => {});
  }
}

/** @param {string} reason */
function lost(reason) {
  socket = null;
  failPending();
  setState({live: false, reason: reason || "the connection was lost"});
  if (!wanted) return;
  clearTimeout(timer);
  timer = setTimeout(connect, delay * (0.8 + 0.4 * Math.random()));
  delay = Math.min(delay * 2, MAX_DELAY);
}

function failPending() {
  for (const {reject} of pending.values()) reject(new Error("the connection was lost"));
  pending.clear();
}

/** Tries again now, for a user who does not want to wait. */
export function retryNow() {
  delay = FIRST_DELAY;
  if (wanted) connect();
}

/** Calls a method of the socket. @param {string} method @param {object} params @returns {Promise<any>} */
export function request(method, params) {
  return new Promise((resolve, reject) => {
    if (socket?.readyState !== WebSocket.OPEN) return reject(new Error("there is no connection"));
    const id = nextId++;
    pending.set(id, {resolve, reject});
    socket.send(JSON.stringify({jsonrpc: "2.0", id, method, params}));
  });
}

/** @param {string} text */
function receive(text) {
  const message = JSON.parse(text);
  if (message.id !== undefined && message.method === undefined) {
    const waiting = pending.get(message.id);
    pending.delete(message.id);
    if (message.error) waiting?.reject(new Error(message.error.message));
    else waiting?.resolve(message.result);
  } else if (message.method === "threads.event") {
    deliver(message.params.thread_id, message.params.event);
  } else if (message.method) {
    for (const callback of notified) callback(message.method, message.params);
  }
}

/** @param {string} thread @param {any} event */
function deliver(thread, event) {
  for (const subscription of subscriptions) {
    // An earlier subscription of the same thread may still deliver: each event is applied once.
    if (subscription.thread !== thread || event.seq <= subscription.cursor) continue;
    if (event.previous_seq > subscription.cursor && subscription.cursor > 0) subscription.onGap?.();
    subscription.cursor = event.seq;
    subscription.onEvent(event);
  }
}

/** @param {Subscription} subscription */
const start = (subscription) => request("events.subscribe", {thread_id: subscription.thread, since_seq: subscription.cursor});

/**
 * Delivers the events of a thread after a number, also after the connection was lost.
 * @param {string} thread @param {number} since @param {(event: any) => void} onEvent @param {() => void} [onGap]
 * @returns {() => void} ends the subscription
 */
export function subscribe(thread, since, onEvent, onGap) {
  /** @type {Subscription} */
  const subscription = {thread, cursor: since, onEvent, onGap};
  subscriptions.add(subscription);
  if (state.live) start(subscription).catch(() => socket?.close(4000, "a subscription failed"));
  else connect();
  return () => {
    subscriptions.delete(subscription);
    // The protocol has no method that ends a subscription. A new connection has only those that are still needed.
    if (state.live && socket) {
      const closing = socket;
      socket = null;
      failPending();
      closing.close();
      connect();
    }
  };
}

addEventListener("online", retryNow);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && !state.live && retryNow());
