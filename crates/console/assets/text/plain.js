// Text from models, tools and repositories: bounded, and with nothing invisible.

/** The characters of a text that are shown before the user asks for more. */
export const SHOWN = 64 * 1024;

// Controls except tab and line feed; invisible and direction-changing characters.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Writes characters that a reader could not see by their number. @param {string} text */
export const visible = (text) =>
  text.replace(HIDDEN, (char) => `⟨U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/** Cuts a text between characters. @param {string} text @param {number} limit */
export function cut(text, limit) {
  if (text.length <= limit) return text;
  const last = text.charCodeAt(limit - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? limit - 1 : limit);
}

/** One line of bounded length, for rows. @param {unknown} text @param {number} [limit] */
export function line(text, limit = 300) {
  if (text === null || text === undefined) return "";
  const whole = typeof text === "string" ? text : JSON.stringify(text);
  const start = cut(whole, limit * 4).replace(/\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])?/g, "");
  const shown = visible(start.replace(/\s+/g, " ").trim());
  return shown.length > limit || whole.length > limit * 4 ? cut(shown, limit) + "…" : shown;
}
