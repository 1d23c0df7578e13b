// Settings of this browser and of the daemon: models, environments, MCP servers.

import {call, get, path, post} from "../model/api.js";
import {preference, setPreference} from "../model/prefs.js";
import {go, href} from "../model/route.js";
import {signOut} from "../model/session.js";
import {line} from "../text/plain.js";
import {button, fill, h} from "../ui/dom.js";
import {errorText, load, toast} from "../ui/notice.js";
import {box, dim, field, note} from "../ui/parts.js";

/** @param {HTMLElement} main @param {import("../boot.js").Context} _context */
export function show(main, _context) {
  const sections = [["This browser", browser], ["Models", models], ["Environments", environments], ["MCP servers", servers], ["Tokens", tokens]];
  fill(
    main,
    h("h1", "Settings"),
    h("div.narrow", sections.map(([title, build]) => {
      const body = h("div");
      void (/** @type {(node: HTMLElement) => unknown} */ (build))(body);
      return h("section.panel", {"aria-label": String(title)}, h("h2", String(title)), body);
    })),
  );
}

/** @param {unknown} error */
const report = (error) => toast(errorText(error), "bad");

/** @param {HTMLElement} node */
function browser(node) {
  const theme = h("select", ["auto", "light", "dark"].map((name) => h("option", {value: name, selected: preference("theme") === name}, name)));
  theme.addEventListener("change", () => setPreference("theme", theme.value));
  const keys = h("input", {type: "checkbox", checked: preference("keys") === "on"});
  keys.addEventListener("change", () => setPreference("keys", keys.checked ? "on" : "off"));
  const leave = button("Sign out", () => signOut().then(() => go(href("login")), report));
  fill(node, field("Colours", theme), h("p", h("label.check", keys, "Single letters are keys")), leave);
}

/** Tokens are made where their owner can read them once. @param {HTMLElement} node */
const tokens = (node) => fill(node, note("The daemon stores digests only, so tokens are created and revoked on its machine:"), h("pre.code", "windlass token create --scope client\nwindlass token list\nwindlass token revoke ID"));

/** @param {HTMLElement} node */
function models(node) {
  return load(node, () => Promise.all([get("/v1/config"), get("/v1/models"), get("/v1/providers")]), ([config, list, providers]) => {
    const chosen = h("input", {type: "text", list: "known-models", value: config.default_model, required: true});
    const form = h("form", field("Model of new threads", chosen), h("datalist", {id: "known-models"}, list.models.map((/** @type {string} */ name) => h("option", {value: name}))), h("button", "Save"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      post("/v1/config", {key: "default_model", value: chosen.value.trim(), persist: true}).then((saved) => toast(line(saved.message)), report);
    });
    const usable = providers.providers.filter((/** @type {any} */ one) => one.usable).map((/** @type {any} */ one) => one.display_name);
    fill(node, form, note("Usable providers: ", line(usable.join(", ")) || "none"));
  });
}

/** @param {HTMLElement} node */
function environments(node) {
  const draw = () =>
    load(node, () => get("/v1/environments"), (list) => {
      const rows = list.environments.map((/** @type {any} */ one) => {
        const policy = [one.policy.write ? "write" : "read only", one.policy.shell ? "shell" : "no shell", `network ${one.policy.network}`].join(", ");
        return h("li", h("strong", line(one.id, 40)), h("span.clip.grow.mono", {title: line(one.root)}, line(one.root)), dim(policy), one.protected ? null : button("Remove", () => confirm(`Remove the environment ${one.id}?`) && call("DELETE", path`/v1/environments/${one.id}`).then(draw, report)));
      });
      const name = h("input", {type: "text", required: true});
      const root = h("input", {type: "text", required: true, placeholder: "/home/ann/project"});
      const write = h("input", {type: "checkbox", checked: true});
      const shell = h("input", {type: "checkbox", checked: true});
      const form = h("form", field("Name", name), field("Directory", root), h("p.actions", h("label.check", write, "may write"), h("label.check", shell, "may run commands")), h("button", "Add"));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        post("/v1/environments", {id: name.value.trim(), root: root.value.trim(), policy: {write: write.checked, shell: shell.checked}}).then(draw, report);
      });
      fill(node, h("ul.rows", rows), box("Add an environment", form));
    });
  return draw();
}

/** @param {HTMLElement} node */
function servers(node) {
  /** @param {boolean} connect */
  const draw = (connect) =>
    load(node, () => Promise.all([get("/v1/apps/mcp/servers"), get("/v1/apps/mcp/tools", {connect: connect || undefined})]), ([list, tools]) => {
      const rows = list.servers.map((/** @type {any} */ server) => {
        const own = tools.tools.filter((/** @type {any} */ tool) => tool.server === server.name);
        const failure = tools.failures?.find((/** @type {any} */ one) => one.server === server.name);
        const state = failure ? h("span.bad", "✗ failed") : server.connected ? h("span.ok", "✓ connected") : dim(server.enabled ? "· not connected" : "· disabled");
        return h("details.box", h("summary", h("strong", line(server.name, 60)), " ", state, ` ${own.length || ""} ${own.length ? "tools" : ""}`), h("p.mono", line(server.url ?? server.command)), failure ? h("p.bad", line(failure.reason, 1000)) : null, h("ul", own.map((/** @type {any} */ tool) => h("li", h("code", line(tool.name, 80)), " ", line(tool.description, 200)))));
      });
      fill(node, rows.length ? [rows, h("p", button("Connect and list the tools", () => void draw(true)))] : note("No server is configured. Add one under [mcp.servers] of windlass.toml."));
    });
  return draw(false);
}
