// The frame of every page: header with navigation and liveness, content, tab bar on narrow screens.

import {liveness, retryNow, watchLiveness} from "../model/socket.js";
import {TIMES} from "./clock.js";
import {BASE, href, go} from "../model/route.js";
import {when} from "../model/format.js";
import {button, fill, h} from "./dom.js";
import {announce, mountNotices} from "./notice.js";
import {help} from "./keys.js";

const LINKS = /** @type {const} */ ([
  ["inbox", "Inbox"],
  ["runs", "Activity"],
  ["jobs", "Jobs"],
  ["usage", "Usage"],
  ["settings", "Settings"],
]);

export const main = h("main", {id: "main", tabindex: "-1"});
const live = h("button", {type: "button", class: "live", onclick: retryNow});
const banner = h("div.banner", {role: "status", hidden: true});
const place = h("span.place.dim");
/** @type {Map<string, HTMLElement[]>} */
const links = new Map();
let wasLive = false;

/** @param {string} page @param {string} label */
function link(page, label) {
  const node = h("a", {href: href(page)}, label, h("span.count", {hidden: true}));
  links.set(page, [...(links.get(page) ?? []), node]);
  return node;
}

/** Builds the frame once. @param {HTMLElement} root */
export function mountShell(root) {
  const find = h("input", {type: "search", placeholder: "Search threads", "aria-label": "Search threads", name: "q"});
  const search = h("form", {role: "search", class: "find"}, find);
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    go(href("search", "", {q: find.value}));
  });
  const header = h(
    "header.top",
    h("a.brand", {href: BASE + "/"}, "Windlass"),
    h("nav.wide", {"aria-label": "Pages"}, LINKS.map(([page, label]) => link(page, label))),
    search,
    place,
    live,
    button("?", help, {class: "icon", "aria-label": "Keys", title: "Keys"}),
  );
  const tabs = h("nav.tabs", {"aria-label": "Pages"}, LINKS.map(([page, label]) => link(page, label)));
  fill(root, h("a.skip", {href: "#main"}, "Skip to the content"), header, banner, main, tabs);
  mountNotices(root);
  watchLiveness(showLiveness);
}

/** @param {import("../model/socket.js").Liveness} state */
function showLiveness(state) {
  fill(live, h("span", {class: state.live ? "ok" : "bad", "aria-hidden": "true"}, state.live ? "●" : "○"), state.live ? " live" : " not live");
  live.title = state.live ? "Changes appear at once" : `${state.reason}: try again now`;
  document.body.classList.toggle("offline", wasLive && !state.live);
  if (state.live) {
    if (wasLive && !banner.hidden) announce("Live again");
    banner.hidden = true;
    wasLive = true;
  } else if (wasLive) {
    banner.hidden = false;
    fill(banner, `Not live since ${when(new Date(state.since).toISOString())}, trying again. Decisions are off. `, button("Try now", retryNow));
    announce("The connection to the daemon was lost", true);
  }
  TIMES.dispatchEvent(new Event("liveness"));
}

/** Whether changes can be sent. */
export const isLive = () => liveness().live || !wasLive;

/** Marks the current page and sets the title. @param {string} page @param {string} title */
export function showPage(page, title) {
  document.title = title ? `${title} · Windlass` : "Windlass";
  const top = {threads: "runs", compare: "runs", waits: "inbox", search: "runs"}[page] ?? page;
  for (const [name, nodes] of links) for (const node of nodes) name === top ? node.setAttribute("aria-current", "page") : node.removeAttribute("aria-current");
}

/** Shows the number of waits in the navigation. @param {number} amount */
export function showWaits(amount) {
  for (const node of links.get("inbox") ?? []) {
    const badge = node.querySelector(".count");
    if (!(badge instanceof HTMLElement)) continue;
    badge.hidden = amount === 0;
    badge.textContent = String(amount);
  }
}

/** Names the daemon in the header. @param {string} text */
export const showPlace = (text) => void (place.textContent = text);
