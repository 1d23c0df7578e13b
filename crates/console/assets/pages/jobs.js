// Unattended work: tasks, automations and fleets; and starting it.

import {get, page, path, post} from "../model/api.js";
import {between, duration, plural, when} from "../model/format.js";
import {go, href} from "../model/route.js";
import {line} from "../text/plain.js";
import {button, fill, h} from "../ui/dom.js";
import {emptyBlock, errorText, load, toast} from "../ui/notice.js";
import {status, statusOf} from "../ui/status.js";
import {dim, field} from "../ui/parts.js";

const GROUPS = /** @type {const} */ ([
  ["Needs you", (/** @type {any} */ task) => task.status === "running" && task.waiting_for?.length],
  ["Working", (/** @type {any} */ task) => ["queued", "running"].includes(task.status) && !task.waiting_for?.length],
  ["Done", (/** @type {any} */ task) => !["queued", "running"].includes(task.status)],
]);

/** @param {HTMLElement} main @param {import("../boot.js").Context} context */
export function show(main, context) {
  const tasks = h("div");
  const automations = h("div");
  const fleets = h("div");
  const draw = () =>
    Promise.all([
      load(tasks, () => get("/v1/tasks", {limit: 50}), (list) => drawTasks(tasks, list.tasks, draw)),
      load(automations, () => page("/v1/automations"), ({rows}) => drawAutomations(automations, rows, draw)),
      load(fleets, () => get("/v1/fleet/runs", {limit: 20}), (list) => drawFleets(fleets, list.runs, draw)),
    ]);
  fill(
    main,
    h("h1", "Jobs"),
    h("div.columns", h("div", section("Tasks", tasks), section("Automations", automations), section("Fleets", fleets)), section("Start work", startForm(draw))),
  );
  context.poll(4000, draw);
}

/** @param {string} title @param {HTMLElement} content */
const section = (title, content) => h("section.panel", {"aria-label": title}, h("h2", title), content);

/** A button that changes something and then draws again. @param {string} label @param {string} target @param {() => unknown} draw */
const act = (label, target, draw) => button(label, () => post(target).then(draw, (error) => toast(errorText(error), "bad")));

/** @param {HTMLElement} node @param {any[]} tasks @param {() => unknown} draw */
function drawTasks(node, tasks, draw) {
  const groups = GROUPS.map(([name, belongs]) => {
    const rows = tasks.filter(belongs).map((task) =>
      h(
        "li",
        statusOf(task),
        h("a.clip.grow", {href: task.thread_id ? href("threads", task.thread_id) : null}, line(task.prompt_summary, 120)),
        task.held ? h("span.warn.clip", {title: line(task.held.reason)}, "held: ", line(task.held.cause)) : null,
        h("span.num.dim", duration(task.duration_ms ?? between(task.started_at, task.ended_at))),
        ["queued", "running"].includes(task.status) ? act("Cancel", path`/v1/tasks/${task.id}/cancel`, draw) : null,
      ),
    );
    return rows.length ? [h("h3", `${name} (${rows.length})`), h("ul.rows", rows)] : null;
  });
  fill(node, tasks.length ? groups : emptyBlock("No task yet. Start one here, or:", 'windlass task add "Fix the failing test"'));
}

/** @param {HTMLElement} node @param {any[]} rows @param {() => unknown} draw */
function drawAutomations(node, rows, draw) {
  const lines = rows.map((row) => {
    const own = path`/v1/automations/${row.id}`;
    return h("li", status(row.status), h("span.clip.grow", {title: line(row.prompt)}, line(row.name, 80)), dim(row.next_run_at ? `next ${when(row.next_run_at)}` : ""), act("Run", own + "/run", draw), row.status === "paused" ? act("Resume", own + "/resume", draw) : act("Pause", own + "/pause", draw));
  });
  fill(node, lines.length ? h("ul.rows", lines) : emptyBlock("No automation yet. An automation starts a task on a schedule."));
}

/** @param {HTMLElement} node @param {any[]} runs @param {() => unknown} draw */
function drawFleets(node, runs, draw) {
  const lines = runs.map((run) =>
    h("details.box", h("summary", status(run.lifecycle_status), " ", line(run.name, 80), " ", dim(`${plural(run.task_count, "task")}, ${plural(run.worker_count, "worker")}`)), h("ul.rows", run.tasks.map((/** @type {any} */ task) => h("li", status(task.status === "leased" ? "running" : task.status === "enqueued" ? "queued" : task.status), h("a.clip.grow", {href: task.thread_id ? href("threads", task.thread_id) : null}, line(task.task_id, 60)), h("span.clip.dim", line(task.summary ?? task.error, 100))))), ["pending", "queued", "running"].includes(run.lifecycle_status) ? act("Stop", path`/v1/fleet/runs/${run.id}/stop`, draw) : null),
  );
  fill(node, lines.length ? lines : emptyBlock("No fleet run yet. A fleet run distributes tasks over several workers."));
}

/** @param {() => unknown} draw */
function startForm(draw) {
  const prompt = h("textarea", {name: "prompt", rows: "4", required: true});
  const kind = h("select", {name: "kind"}, h("option", {value: "task"}, "task: unattended, with attempts"), h("option", {value: "thread"}, "thread: you follow it"), h("option", {value: "automation"}, "automation: on a schedule"));
  const rule = h("input", {type: "text", name: "rrule", value: "FREQ=DAILY;BYHOUR=6;BYMINUTE=0"});
  const schedule = h("label.field", {hidden: true}, "Schedule (RFC 5545)", rule);
  kind.addEventListener("change", () => (schedule.hidden = kind.value !== "automation"));
  const form = h("form", field("Prompt", prompt), field("As", kind), schedule, h("button.primary", "Start"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = prompt.value.trim();
    try {
      if (kind.value === "thread") {
        const thread = await post("/v1/threads", {title: line(text, 60)});
        await post(path`/v1/threads/${thread.id}/turns`, {prompt: text});
        return go(href("threads", thread.id));
      }
      if (kind.value === "task") await post("/v1/tasks", {prompt: text});
      else await post("/v1/automations", {name: line(text, 60), prompt: text, rrule: rule.value});
      prompt.value = "";
      toast("Started");
      void draw();
    } catch (error) {
      toast(errorText(error), "bad");
    }
  });
  return form;
}
