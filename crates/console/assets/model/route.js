// The page's address as data. Every view and every event has its own address.

export const BASE = "/console";

/** @typedef {{page: string, id: string, query: URLSearchParams}} Route */

const PAGES = ["runs", "threads", "waits", "jobs", "compare", "usage", "settings", "search", "login"];

/** @param {Location | URL} location @returns {Route} */
export function parse(location) {
  const words = location.pathname.slice(BASE.length).split("/").filter(Boolean).map(safeDecode);
  const page = words[0] ?? "inbox";
  return {page: page === "inbox" || PAGES.includes(page) ? page : "missing", id: words[1] ?? "", query: new URLSearchParams(location.search)};
}

/** @param {string} word */
function safeDecode(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

/** Parameters without a value are left out. @typedef {Record<string, string | number | boolean | undefined | null>} Query */

/** @param {string} target @param {Query} query */
export function withQuery(target, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  return search.size ? `${target}?${search}` : target;
}

/** @param {string} page @param {string} [id] @param {Query} [query] */
export const href = (page, id, query) => withQuery((page === "inbox" ? BASE + "/" : `${BASE}/${page}`) + (id ? "/" + encodeURIComponent(id) : ""), query);

/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {() => void} listener */
export const onNavigate = (listener) => listeners.add(listener);

/** Opens an address without loading the shell again. @param {string} target @param {{replace?: boolean, silent?: boolean}} [options] */
export function go(target, options = {}) {
  if (options.replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  if (!options.silent) for (const listener of listeners) listener();
}

/** Changes parameters of the query; the page stays. @param {Query} changes */
export const setQuery = (changes) => go(withQuery(location.pathname, {...Object.fromEntries(new URLSearchParams(location.search)), ...changes}), {replace: true, silent: true});

/** Follows links of the console in place. */
export function intercept() {
  addEventListener("popstate", () => listeners.forEach((listener) => listener()));
  document.addEventListener("click", (event) => {
    const link = event.composedPath().find((node) => node instanceof HTMLAnchorElement);
    if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const own = link.origin === location.origin && (link.pathname + "/").startsWith(BASE + "/");
    if (!own || link.target || link.hasAttribute("download") || link.pathname.startsWith(BASE + "/a/")) return;
    if (link.pathname === location.pathname && link.search === location.search && link.hash) return;
    event.preventDefault();
    go(link.href);
  });
}
