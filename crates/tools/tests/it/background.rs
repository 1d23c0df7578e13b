//! Commands that continue to run after their call has returned.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::typed_id::SessionId;
use windlass_tools::{Confinement, OutputLimits};

use crate::outputs::SessionTools;
use crate::support::{TestWorkspace, soon, ways};

async fn begin(tools: &SessionTools, command: &str) -> String {
    let arguments = json!({ "command": command, "background": true });
    let begun = tools.call("shell", arguments).await.unwrap();
    assert_eq!(begun["status"], "running", "{begun}");
    begun["id"].as_str().unwrap().to_owned()
}

async fn look(tools: &SessionTools, id: &str) -> Value {
    let arguments = json!({ "id": id });
    tools.call("shell_output", arguments).await.unwrap()
}

/// Polls a command until it is as expected.
async fn until(tools: &SessionTools, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let seen = tools
            .call("shell_output", json!({ "id": id, "wait_ms": 100 }))
            .await;
        let seen = seen.unwrap();
        if holds(&seen) {
            return seen;
        }
    }
    panic!("{}", look(tools, id).await);
}

fn tools(way: Confinement) -> SessionTools {
    SessionTools::confined(way, OutputLimits::default(), |_| {})
}

#[tokio::test]
async fn background_command_runs_on_and_its_output_is_read_in_parts() {
    for way in ways() {
        let tools = tools(way);
        let id = begin(
            &tools,
            "echo one; while ! test -e go; do sleep 0.05; done; echo two; exit 3",
        )
        .await;
        let seen = until(&tools, &id, |seen| seen["output"] == "one\n").await;
        assert_eq!(seen["status"], "running", "{way:?}: {seen}");
        // Other calls run meanwhile, and the command waits for this one.
        tools.shell("touch go").await;
        let seen = until(&tools, &id, |seen| seen["status"] != "running").await;
        assert_eq!(
            (&seen["status"], &seen["exit_code"]),
            (&json!("exited"), &json!(3)),
            "{way:?}"
        );
        assert_eq!(seen["output"], "one\ntwo\n");
        let rest = tools
            .call("shell_output", json!({ "id": id, "after": 4 }))
            .await
            .unwrap();
        assert_eq!(
            (&rest["output"], &rest["next"]),
            (&json!("two\n"), &json!(8)),
            "{way:?}"
        );
        let again = tools
            .call("shell_output", json!({ "id": id, "after": 8 }))
            .await
            .unwrap();
        assert_eq!((&again["output"], &again["next"]), (&json!(""), &json!(8)));
        let path = seen["path"].as_str().unwrap();
        let read = tools.call("read", json!({ "path": path })).await.unwrap();
        assert_eq!(read["content"], "one\ntwo\n");
    }
}

#[tokio::test]
async fn stopped_command_stays_stopped() {
    for way in ways() {
        let tools = tools(way);
        let id = begin(&tools, "echo here; sleep 1000 & sleep 1000").await;
        until(&tools, &id, |seen| seen["output"] == "here\n").await;
        let stopped = tools.call("shell_stop", json!({ "id": id })).await.unwrap();
        assert_eq!(
            (&stopped["status"], &stopped["output"]),
            (&json!("stopped"), &json!("here\n")),
            "{way:?}"
        );
        let again = tools.call("shell_stop", json!({ "id": id })).await.unwrap();
        assert_eq!(again, stopped);
        assert_eq!(look(&tools, &id).await["status"], "stopped");
        let listed = tools.call("shell_output", json!({})).await.unwrap();
        assert_eq!(listed["commands"][0]["id"], json!(id));
        assert_eq!(listed["commands"][0]["status"], "stopped");
    }
}

#[tokio::test]
async fn time_and_number_of_commands_are_limited() {
    let tools = SessionTools::confined(
        Confinement::Unconfined,
        OutputLimits::default(),
        |settings| {
            settings.max_background_time = Duration::from_millis(200);
            settings.max_background_of_session = 2;
            settings.max_background = 3;
        },
    );
    let long = json!({ "command": "sleep 1000", "background": true, "timeout_ms": 3_600_000 });
    let id = tools.call("shell", long).await.unwrap()["id"].clone();
    until(&tools, id.as_str().unwrap(), |seen| {
        seen["status"] == "timed_out"
    })
    .await;
    let tools = SessionTools::confined(
        Confinement::Unconfined,
        OutputLimits::default(),
        |settings| {
            settings.max_background_of_session = 2;
            settings.max_background = 3;
        },
    );
    let first = begin(&tools, "sleep 1000").await;
    begin(&tools, "sleep 1000").await;
    let one_more = json!({ "command": "sleep 1000", "background": true });
    let error = tools.call("shell", one_more.clone()).await.unwrap_err();
    assert!(error.contains("2 commands of this thread"), "{error}");
    let other = SessionId::new();
    tools
        .call_of(other, "shell", one_more.clone())
        .await
        .unwrap();
    let error = tools
        .call_of(other, "shell", one_more.clone())
        .await
        .unwrap_err();
    assert!(error.contains("3 commands of this host"), "{error}");
    tools
        .call("shell_stop", json!({ "id": first }))
        .await
        .unwrap();
    tools.call("shell", one_more).await.unwrap();
}

#[tokio::test]
async fn command_ends_with_its_session() {
    for way in ways() {
        let tools = tools(way);
        let beat = "while true; do date +%N > beat; sleep 0.02; done";
        let id = begin(&tools, beat).await;
        soon("it runs", || tools.workspace.root().join("beat").exists());
        let other = SessionId::new();
        for tool in ["shell_output", "shell_stop"] {
            let error = tools
                .call_of(other, tool, json!({ "id": id }))
                .await
                .unwrap_err();
            assert!(error.contains("there is no command"), "{tool}: {error}");
        }
        tools.remove(other).await;
        assert_eq!(look(&tools, &id).await["status"], "running");
        tools.remove(tools.session_id).await;
        let last = tools.workspace.text("beat");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(tools.workspace.text("beat"), last, "{way:?}: it still runs");
        assert!(
            tools
                .call("shell_output", json!({ "id": id }))
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn output_is_available_after_a_restart_with_an_unknown_outcome() {
    let tools = tools(Confinement::Unconfined);
    let id = begin(&tools, "echo so far; sleep 1000").await;
    until(&tools, &id, |seen| seen["output"] == "so far\n").await;
    // The host is a new process now, which has no supervisor for the command.
    let tools = tools.restarted();
    let seen = look(&tools, &id).await;
    assert_eq!(
        (&seen["status"], &seen["output"]),
        (&json!("unknown"), &json!("so far\n"))
    );
    assert!(
        seen["remark"]
            .as_str()
            .unwrap()
            .contains("outcome is unknown"),
        "{seen}"
    );
    let stopped = tools.call("shell_stop", json!({ "id": id })).await.unwrap();
    assert_eq!(stopped["status"], "unknown");
    // A damaged record has an unknown end too.
    let store = tools.workspace.outside().join("store");
    let session = std::fs::read_dir(store).unwrap().next().unwrap().unwrap();
    std::fs::write(session.path().join(format!("{id}.json")), "{").unwrap();
    assert_eq!(look(&tools, &id).await["status"], "unknown");
}

#[tokio::test]
async fn beginning_and_end_of_endless_output_are_retained() {
    let limits = OutputLimits {
        bytes_each: 256 * 1024,
        ..OutputLimits::default()
    };
    let tools = SessionTools::new(limits);
    let id = begin(
        &tools,
        "echo first; yes flood | head -c 5000000; echo newest; sleep 1000",
    )
    .await;
    let seen = until(&tools, &id, |seen| {
        seen["output"].as_str().unwrap().ends_with("newest\n")
    });
    let seen = seen.await;
    assert_eq!(seen["status"], "running");
    let first = tools
        .call("shell_output", json!({ "id": id, "after": 0 }))
        .await
        .unwrap();
    assert!(first["output"].as_str().unwrap().starts_with("first\n"));
    assert!(
        first["remark"]
            .as_str()
            .unwrap()
            .contains("continue with `after`"),
        "{}",
        first["remark"]
    );
    let stopped = tools.call("shell_stop", json!({ "id": id })).await.unwrap();
    assert!(stopped["output"].as_str().unwrap().ends_with("newest\n"));
}

#[tokio::test]
async fn background_commands_need_an_output_store() {
    let workspace = TestWorkspace::confined(Confinement::Unconfined, Default::default());
    let arguments = json!({ "command": "true", "background": true });
    let error = workspace.call("shell", arguments).await.unwrap_err();
    assert!(error.contains("stores no outputs"), "{error}");
    let schema = workspace.tool("shell").parameters_schema();
    assert!(schema["properties"].get("background").is_none());
}

#[test]
fn turn_without_commands_gets_no_command_tools() {
    let idle = windlass_tools::Policy::read_only().idle_tools();
    for tool in ["shell", "shell_output", "shell_stop"] {
        assert!(idle.contains(&tool), "{idle:?}");
    }
    assert!(windlass_tools::Policy::default().idle_tools().is_empty());
}
