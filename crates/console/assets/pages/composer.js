// The field for prompts: it starts a turn, steers the running one, or interrupts it.

import {path, post} from "../model/api.js";
import {button, fill, h} from "../ui/dom.js";
import {errorText, toast} from "../ui/notice.js";

/** @param {import("./thread.js").ThreadPage} page */
export function composer({talk}) {
  const target = path`/v1/threads/${talk.thread.id}/turns`;
  const field = h("textarea", {rows: "1", "aria-label": "Prompt", placeholder: "Say something…"});
  const send = h("button.primary", "Send");
  const queue = button("Queue", () => void submit("queue"), {title: "Start another turn after this one"});
  const stop = button("Interrupt", () => void interrupt(), {class: "danger"});
  const root = h("form.composer", field, h("div.actions", send, queue, stop));
  // The draft survives a reload, and a session that ended.
  const draft = "windlass.draft." + talk.thread.id;
  field.value = sessionStorage.getItem(draft) ?? "";
  field.addEventListener("input", () => sessionStorage.setItem(draft, field.value));
  /** A repeated request has the first one's effect. */
  let key = crypto.randomUUID();

  /** @param {string} busy */
  const submit = async (busy) => {
    const prompt = field.value.trim();
    if (!prompt) return field.focus();
    const open = talk.openTurn;
    send.disabled = queue.disabled = true;
    try {
      if (open && busy === "steer") await post(`${target}/${encodeURIComponent(open.id)}/steer`, {prompt}, key);
      else await post(target, {prompt, on_busy: busy === "queue" ? "queue" : undefined}, key);
      key = crypto.randomUUID();
      field.value = "";
      sessionStorage.removeItem(draft);
    } catch (error) {
      key = crypto.randomUUID();
      toast(errorText(error), "bad");
    }
    send.disabled = queue.disabled = false;
  };
  const interrupt = async () => {
    const open = talk.openTurn;
    if (!open) return;
    stop.disabled = true;
    await post(`${target}/${encodeURIComponent(open.id)}/interrupt`).catch((error) => toast(errorText(error), "bad"));
    stop.disabled = false;
  };
  root.addEventListener("submit", (event) => {
    event.preventDefault();
    void submit("steer");
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      void submit("steer");
    }
  });
  const draw = () => {
    const running = Boolean(talk.openTurn);
    fill(send, running ? "Steer" : "Send");
    queue.hidden = stop.hidden = !running;
  };
  return {root, draw};
}
