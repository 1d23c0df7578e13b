// Preferences of this browser.

const DEFAULTS = {keys: "on", theme: "auto"};

/** @typedef {keyof typeof DEFAULTS} Preference */

/** @param {Preference} name */
export const preference = (name) => localStorage.getItem("windlass." + name) ?? DEFAULTS[name];

/** @param {Preference} name @param {string} value */
export function setPreference(name, value) {
  localStorage.setItem("windlass." + name, value);
  applyTheme();
}

/** Applies the theme that the user chose; without a choice, the system's. */
export function applyTheme() {
  const theme = preference("theme");
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
