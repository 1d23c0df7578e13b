// Starts the console: the frame, the connection, and the page of the address.

import {get, onSignedOut, sessionKey} from "./model/api.js";
import {applyTheme} from "./model/prefs.js";
import {go, href, intercept, onNavigate, parse} from "./model/route.js";
import {connect, disconnect, onNotification} from "./model/socket.js";
import {fill, h} from "./ui/dom.js";
import {bindKeys, listenForKeys} from "./ui/keys.js";
import {errorBlock} from "./ui/notice.js";
import {main, mountShell, showPage, showPlace} from "./ui/shell.js";
import {loginForm} from "./pages/login.js";

/**
 * What a page gets: its address, and helpers that end with the page.
 * @typedef {{
 *   route: import("./model/route.js").Route,
 *   signal: AbortSignal,
 *   poll: (milliseconds: number, read: () => Promise<unknown>) => void,
 *   onLeave: (end: () => void) => void,
 *   keys: (bindings: import("./ui/keys.js").Bindings) => void,
 *   title: (text: string) => void,
 *   onDone: () => void,
 * }} Context
 */

const TITLES = {inbox: "Inbox", runs: "Activity", threads: "Thread", waits: "Approval", jobs: "Jobs", compare: "What-if", usage: "Usage", settings: "Settings", search: "Search", login: "Sign in"};
/** @type {Record<string, () => Promise<{show: (main: HTMLElement, context: Context) => unknown}>>} */
const PAGES = {
  inbox: () => import("./pages/inbox.js"),
  runs: () => import("./pages/activity.js"),
  threads: () => import("./pages/thread.js"),
  waits: () => import("./pages/approval.js"),
  jobs: () => import("./pages/jobs.js"),
  compare: () => import("./pages/compare.js"),
  usage: () => import("./pages/usage.js"),
  settings: () => import("./pages/settings.js"),
  search: () => import("./pages/search.js"),
  login: () => import("./pages/login.js"),
};

/** @type {AbortController | null} */
let current = null;

/** Shows the page of the address. */
async function open() {
  const route = parse(new URL(location.href));
  const locked = !sessionKey() && (await isLocked());
  document.body.classList.toggle("signed-out", locked);
  if (locked && route.page !== "login") return go(href("login", "", {next: location.pathname + location.search}), {replace: true});
  current?.abort();
  const controller = new AbortController();
  current = controller;
  const {signal} = controller;
  bindKeys({});
  main.className = "";
  showPage(route.page, TITLES[/** @type {keyof typeof TITLES} */ (route.page)] ?? "");
  /** @type {Context} */
  const context = {
    route,
    signal,
    poll: (milliseconds, read) => poll(milliseconds, read, signal),
    onLeave: (end) => signal.addEventListener("abort", end, {once: true}),
    keys: bindKeys,
    title: (text) => signal.aborted || showPage(route.page, text),
    onDone: () => signedIn(route),
  };
  const load = PAGES[route.page];
  if (!load) return fill(main, h("h1", "No such page"), h("a", {href: href("inbox")}, "Inbox"));
  try {
    const module = await load();
    if (!signal.aborted) await module.show(main, context);
  } catch (error) {
    if (!signal.aborted) fill(main, errorBlock(error, () => void open()));
  }
}

/** Whether the daemon requires a login. */
const isLocked = () => get("/v1/runtime/info").then((info) => info.auth_required, () => true);

/** Reads now, and again while the page is visible. A change that the daemon reports shortens the wait. @param {number} milliseconds @param {() => Promise<unknown>} read @param {AbortSignal} signal */
function poll(milliseconds, read, signal) {
  let timer = 0;
  let busy = false;
  const run = async () => {
    clearTimeout(timer);
    if (signal.aborted || busy) return;
    busy = true;
    try {
      if (document.visibilityState === "visible") await read();
    } catch {
      // The liveness of the frame reports a daemon that does not answer; the page keeps its data.
    }
    busy = false;
    if (!signal.aborted) timer = setTimeout(run, milliseconds);
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(run, 100);
  };
  document.addEventListener("visibilitychange", soon, {signal});
  const end = onNotification(soon);
  signal.addEventListener("abort", () => (clearTimeout(timer), end()), {once: true});
  void run();
}

/** @param {import("./model/route.js").Route} route */
function signedIn(route) {
  const next = route.query.get("next") ?? "";
  void describe();
  // Only a path of the console: an address of another site would be a redirect that another program can write.
  go(next.startsWith("/console/") ? next : href("inbox"), {replace: true});
}

/** Asks for a login above the page, which stays as it is. */
function askForLogin() {
  if (document.querySelector("dialog.login-dialog") || parse(new URL(location.href)).page === "login") return;
  disconnect();
  const dialog = h("dialog.login-dialog", {"aria-label": "The session has ended"});
  const form = loginForm(() => {
    dialog.close();
    dialog.remove();
  });
  dialog.append(form.root);
  document.body.append(dialog);
  dialog.showModal();
  form.focus();
}

/** Names the daemon in the header. */
async function describe() {
  const status = await get("/v1/workspace/status").catch(() => null);
  showPlace(status ? `${location.host} · ${status.workspace}` : location.host);
}

applyTheme();
mountShell(/** @type {HTMLElement} */ (document.getElementById("app")));
intercept();
listenForKeys();
onNavigate(() => {
  void open();
  main.focus({preventScroll: true});
});
onSignedOut(askForLogin);
void open().then(() => {
  if (document.body.classList.contains("signed-out")) return;
  connect();
  void describe();
});
