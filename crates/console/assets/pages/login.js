// Signing in: with the code of the printed link, or with a token.

import {signIn} from "../model/session.js";
import {fill, h} from "../ui/dom.js";
import {errorBlock} from "../ui/notice.js";
import {field} from "../ui/parts.js";

/** The form of the login. @param {() => void} done */
export function loginForm(done) {
  const errors = h("div");
  const token = h("input", {type: "password", name: "token", autocomplete: "current-password", required: true, spellcheck: "false"});
  // Password managers store a password together with a user name.
  const user = h("input", {type: "text", name: "username", autocomplete: "username", value: "windlass", hidden: true, tabindex: "-1"});
  const submit = h("button.primary", "Sign in");
  const form = h("form.login", {method: "post"}, user, field("Token", token), submit);
  /** @param {{code: string} | {token: string}} proof */
  const send = async (proof) => {
    submit.disabled = true;
    try {
      await signIn(proof);
      done();
    } catch (error) {
      fill(errors, errorBlock(error));
      submit.disabled = false;
      token.focus();
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send({token: token.value.trim()});
  });
  const root = h(
    "section.narrow.panel",
    h("h1", "Sign in"),
    errors,
    form,
    h("p.dim.hint", "Or open the link that ", h("code", "windlass serve"), " printed. For a new link, run:"),
    h("pre.code", h("code", "windlass console")),
  );
  return {root, send, focus: () => token.focus()};
}

/** @param {HTMLElement} main @param {{onDone: () => void}} context */
export function show(main, {onDone}) {
  const form = loginForm(onDone);
  fill(main, form.root);
  const code = location.hash.slice(1);
  // The code works once and stays in no history.
  if (code) {
    history.replaceState(null, "", location.pathname);
    void form.send({code});
  } else form.focus();
}
