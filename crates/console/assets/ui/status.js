// Status as a glyph and a word, never by colour alone.

import {h} from "./dom.js";

/** @type {Record<string, [string, string, string]>} glyph, word, colour */
const STATUS = {
  queued: ["○", "queued", "dim"],
  pending: ["○", "pending", "dim"],
  starting: ["◐", "starting", "accent"],
  in_progress: ["◐", "running", "accent"],
  running: ["◐", "running", "accent"],
  waiting: ["!", "waiting", "warn"],
  waiting_for_user: ["!", "waiting", "warn"],
  completed: ["✓", "completed", "ok"],
  success: ["✓", "success", "ok"],
  done: ["✓", "done", "ok"],
  partial_success: ["✓", "partial", "warn"],
  failed: ["✗", "failed", "bad"],
  failure: ["✗", "failed", "bad"],
  give_up: ["✗", "gave up", "bad"],
  timeout: ["✗", "timed out", "bad"],
  interrupted: ["■", "interrupted", "warn"],
  canceled: ["■", "cancelled", "dim"],
  cancelled: ["■", "cancelled", "dim"],
  incomplete: ["…", "incomplete", "warn"],
  unknown: ["?", "unknown", "warn"],
  active: ["●", "active", "ok"],
  paused: ["‖", "paused", "warn"],
  idle: ["·", "idle", "dim"],
};

/** The status of a run, task or turn. @param {any} run */
export const statusOf = (run) => status(run?.waiting_for?.length ? "waiting" : run?.status);

/** @param {string | null | undefined} name */
export function status(name) {
  const [glyph, word, colour] = STATUS[name ?? ""] ?? ["·", name || "idle", "dim"];
  return h("span", {class: "status " + colour}, h("span.glyph", {"aria-hidden": "true"}, glyph), " ", word);
}
