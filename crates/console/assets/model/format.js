// Numbers and times as text.

const NUMBER = new Intl.NumberFormat("en");
const TIME = new Intl.DateTimeFormat("en", {hour: "2-digit", minute: "2-digit", hour12: false});
const DAY = new Intl.DateTimeFormat("en", {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false});
const FULL = new Intl.DateTimeFormat("en", {dateStyle: "medium", timeStyle: "long", hour12: false});

/** @param {number} value */
export const count = (value) => NUMBER.format(value);

/** Dollars; a price that is not known is a dash. @param {number | null | undefined} dollars */
export function cost(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? "<$0.01" : "$" + dollars.toFixed(2);
}

/** Today's times without a date. @param {string | undefined | null} time RFC 3339 */
export function when(time) {
  if (!time) return "–";
  const date = new Date(time);
  if (Number.isNaN(date.valueOf())) return "–";
  return date.toDateString() === new Date().toDateString() ? TIME.format(date) : DAY.format(date);
}

/** @param {string | undefined | null} time RFC 3339 */
export function fullTime(time) {
  const date = new Date(time ?? "");
  return Number.isNaN(date.valueOf()) ? "" : FULL.format(date);
}

/** @param {number | undefined | null} milliseconds */
export function duration(milliseconds) {
  if (milliseconds === undefined || milliseconds === null || Number.isNaN(milliseconds)) return "–";
  if (milliseconds < 1000) return Math.max(0, Math.round(milliseconds)) + " ms";
  if (milliseconds < 10_000) return (milliseconds / 1000).toFixed(1) + " s";
  return clock(milliseconds);
}

/** Minutes and seconds, with hours if there are any. @param {number} milliseconds */
export function clock(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = String(seconds % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** @param {string | null | undefined} from @param {string | null | undefined} to */
export const between = (from, to) => (from ? (to ? Date.parse(to) : Date.now()) - Date.parse(from) : undefined);

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return bytes + " bytes";
  if (bytes < 1024 * 1024) return (bytes / 1024).toFixed(1) + " KiB";
  return (bytes / 1024 / 1024).toFixed(1) + " MiB";
}

/** @param {number} amount @param {string} noun */
export const plural = (amount, noun) => `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;

/** The last characters of an ID, which the command line accepts too. @param {string | null | undefined} id */
export const shortId = (id) => (id ? "…" + id.slice(-8) : "");
