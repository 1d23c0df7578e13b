"""Drives an unchanged car-runtime client against a daemon: start, complete, and whatever else this version has.

Usage: car_client.py VERSION. The client itself reads CAR_DAEMON_URL and its tokens from the environment.
"""

import json
import os
import sys

import car_runtime

VERSION = sys.argv[1]
BOUND = "CAR_AGENT_TOKEN" in os.environ
client = car_runtime.CarRuntime()


def call(name, **params):
    return json.loads(getattr(client, name)(json.dumps(params)))


def refused(text, name, **params):
    try:
        call(name, **params)
    except RuntimeError as error:
        assert text in str(error), f"{name}: {error}"
    else:
        raise AssertionError(f"{name} was not refused")


def check(found, expected, what):
    assert found == expected, f"{what}: {found!r}, not {expected!r}"


def owner():
    return {} if BOUND else {"agent_name": "Bulldozer Agent"}


AGENT = "agent-A" if BOUND else "name:bulldozer-agent"

run = call("runs_start", intent="ship it", **owner())
check(run["agent_id"], AGENT, "agent")
check(call("runs_complete", run_id=run["run_id"], outcome={"status": "success"})["ok"], True, "complete")
refused("already terminal", "runs_complete", run_id=run["run_id"], outcome={"status": "done"})
refused("unknown run_id", "runs_complete", run_id="nope", outcome={"status": "done"})
refused("non-empty `intent`", "runs_start", intent=" ", **owner())
second = call("runs_start", intent="with tools", **owner())
assert second["run_id"] != run["run_id"]

car_runtime.register_tool_handler(lambda request: json.dumps({"exit_code": 0}))
action = {"id": "a1", "type": "tool_call", "tool": "drive_cli", "parameters": {"prompt": "go"}}
result = json.loads(client.submit_proposal(json.dumps({"actions": [action]})))
check(result["results"][0]["status"], "succeeded", "proposal")

if VERSION != "0.22.0":
    snapshot = call("runs_subscribe", run_id=second["run_id"])
    check((snapshot["cursor"], snapshot["status"]), (1, "in_progress"), "subscribe")
    recorded = call("runs_record_turns", run_id=second["run_id"], turns=[{"tool": "bash", "output": "a.txt"}])
    check((recorded["ok"], recorded["base_index"]), (True, 1), "record_turns")
    reply = call("runs_record_model_turn", run_id=second["run_id"], turn_index=1, assistant_text="hi",
                 requested_tool_calls=[], model_id="m", token_usage=None, duration_ms=5)
    check(reply["base_index"], 2, "record_model_turn")
    check(call("runs_unsubscribe", run_id=second["run_id"])["removed"], True, "unsubscribe")

call("runs_complete", run_id=second["run_id"], outcome={"status": "give_up", "summary": "enough"})

if VERSION != "0.22.0":
    rows = call("runs_list", agent_id=AGENT)["runs"]
    check([row["run_id"] for row in rows][:2], [second["run_id"], run["run_id"]], "list")
    check([row["turn_count"] for row in rows][:2], [3, 0], "turns")
    trace = call("runs_get_trace", run_id=second["run_id"])
    kinds = [record["record"] for record in trace["records"]]
    check(kinds, ["started", "turn", "turn", "model_turn", "ended"], "trace")
    check(trace["records"][1]["cli_outcome"], {"kind": "exited", "code": 0}, "the tool's end")
    check(call("runs_get_trace", run_id="nope"), {"run_id": "nope", "not_found": True}, "unknown")
    third = call("runs_start", intent="called off", **owner())
    receipt = call("runs_cancel", run_id=third["run_id"], idempotency_key="c1", reason="user asked")
    check(receipt["status"], "cancelled_confirmed", "cancel")
    fourth = call("runs_start", intent="resumed", **owner())
    again = call("runs_resume", run_id=fourth["run_id"])
    check(again["run_id"], fourth["run_id"], "resume")
    call("runs_complete", run_id=fourth["run_id"], outcome={"status": "success"})

# Goes away without a word: the daemon must not lose what was said before.
last = call("runs_start", intent="last words", **owner())
call("runs_complete", run_id=last["run_id"], outcome={"status": "success"})
print(json.dumps({"version": VERSION, "agent_id": AGENT, "last": last["run_id"]}))
