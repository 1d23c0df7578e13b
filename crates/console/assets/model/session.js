// Signing in and out.

import {call, post, setSessionKey} from "./api.js";
import {connect, disconnect} from "./socket.js";
import {BASE} from "./route.js";

/** Signs in with a single-use code or a token. @param {{code: string} | {token: string}} proof */
export async function signIn(proof) {
  const session = await post(BASE + "/login", proof);
  setSessionKey(session.key);
  connect();
}

/** Ends the session on the daemon and in this browser. */
export async function signOut() {
  try {
    await call("POST", BASE + "/logout");
  } finally {
    setSessionKey("");
    disconnect();
  }
}
