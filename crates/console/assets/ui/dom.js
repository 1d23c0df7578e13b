// Elements without HTML: text enters the document as text nodes only.

/**
 * @typedef {string | number | Node | null | undefined | false | any[]} Child
 * @typedef {Record<string, string | number | boolean | null | undefined | EventListener | ((event: any) => unknown)>} Attributes
 */

/**
 * Creates an element. Classes follow the name (`p.dim`), attributes may be left out. An attribute `onclick` is a listener, `true` an attribute
 * without a value; `null`, `false` and `undefined` are left out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T | `${T}.${string}`} tag @param {Attributes | Child} [attributes] @param {...Child} children @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(String(name));
  if (classes.length) element.className = classes.join(" ");
  if (attributes?.constructor === Object) set(element, /** @type {Attributes} */ (attributes));
  else children.unshift(/** @type {Child} */ (attributes));
  append(element, children);
  return /** @type {any} */ (element);
}

/** @param {Element} element @param {Attributes} attributes */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), /** @type {EventListener} */ (value));
    else if (value === true) element.setAttribute(name, "");
    else if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, String(value));
  }
}

/** @param {ParentNode} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child !== null && child !== undefined && child !== false) parent.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces the content of an element. @param {ParentNode} parent @param {...Child} children */
export function fill(parent, ...children) {
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  parent.replaceChildren(fragment);
}

/** A button. @param {string} label @param {(event: MouseEvent) => unknown} onclick @param {Attributes} [attributes] */
export const button = (label, onclick, attributes = {}) => h("button", {type: "button", ...attributes, onclick}, label);

/** Defines an element once. @param {string} name @param {CustomElementConstructor} type */
export const define = (name, type) => void (customElements.get(name) ?? customElements.define(name, type));

/** Calls a function at most once per frame. @param {() => void} draw */
export function perFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}
