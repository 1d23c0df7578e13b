//! Commands that continue to run after their call has returned.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::typed_id::SessionId;
use windlass_tools::{Confinement, OutputLimits};

use crate::outputs::Talk;
use crate::support::{Place, soon, ways};

async fn begin(talk: &Talk, command: &str) -> String {
    let arguments = json!({ "command": command, "background": true });
    let begun = talk.call("shell", arguments).await.unwrap();
    assert_eq!(begun["status"], "running", "{begun}");
    begun["id"].as_str().unwrap().to_owned()
}

async fn look(talk: &Talk, id: &str) -> Value {
    let arguments = json!({ "id": id });
    talk.call("shell_output", arguments).await.unwrap()
}

/// Polls a command until it is as expected.
async fn until(talk: &Talk, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let seen = talk
            .call("shell_output", json!({ "id": id, "wait_ms": 100 }))
            .await;
        let seen = seen.unwrap();
        if holds(&seen) {
            return seen;
        }
    }
    panic!("{}", look(talk, id).await);
}

fn talk(way: Confinement) -> Talk {
    Talk::confined(way, OutputLimits::default(), |_| {})
}

#[tokio::test]
async fn a_command_runs_on_and_its_output_is_read_bit_by_bit() {
    for way in ways() {
        let talk = talk(way);
        let id = begin(
            &talk,
            "echo one; while ! test -e go; do sleep 0.05; done; echo two; exit 3",
        )
        .await;
        let seen = until(&talk, &id, |seen| seen["output"] == "one\n").await;
        assert_eq!(seen["status"], "running", "{way:?}: {seen}");
        // Other calls run meanwhile, and the command waits for this one.
        talk.shell("touch go").await;
        let seen = until(&talk, &id, |seen| seen["status"] != "running").await;
        assert_eq!(
            (&seen["status"], &seen["exit_code"]),
            (&json!("exited"), &json!(3)),
            "{way:?}"
        );
        assert_eq!(seen["output"], "one\ntwo\n");
        let rest = talk
            .call("shell_output", json!({ "id": id, "after": 4 }))
            .await
            .unwrap();
        assert_eq!(
            (&rest["output"], &rest["next"]),
            (&json!("two\n"), &json!(8)),
            "{way:?}"
        );
        let again = talk
            .call("shell_output", json!({ "id": id, "after": 8 }))
            .await
            .unwrap();
        assert_eq!((&again["output"], &again["next"]), (&json!(""), &json!(8)));
        let path = seen["path"].as_str().unwrap();
        let read = talk.call("read", json!({ "path": path })).await.unwrap();
        assert_eq!(read["content"], "one\ntwo\n");
    }
}

#[tokio::test]
async fn a_command_is_stopped_once_and_for_all() {
    for way in ways() {
        let talk = talk(way);
        let id = begin(&talk, "echo here; sleep 1000 & sleep 1000").await;
        until(&talk, &id, |seen| seen["output"] == "here\n").await;
        let stopped = talk.call("shell_stop", json!({ "id": id })).await.unwrap();
        assert_eq!(
            (&stopped["status"], &stopped["output"]),
            (&json!("stopped"), &json!("here\n")),
            "{way:?}"
        );
        let again = talk.call("shell_stop", json!({ "id": id })).await.unwrap();
        assert_eq!(again, stopped);
        assert_eq!(look(&talk, &id).await["status"], "stopped");
        let listed = talk.call("shell_output", json!({})).await.unwrap();
        assert_eq!(listed["commands"][0]["id"], json!(id));
        assert_eq!(listed["commands"][0]["status"], "stopped");
    }
}

#[tokio::test]
async fn time_and_number_are_limited() {
    let talk = Talk::confined(
        Confinement::Unconfined,
        OutputLimits::default(),
        |settings| {
            settings.max_background_time = Duration::from_millis(200);
            settings.max_background_of_session = 2;
            settings.max_background = 3;
        },
    );
    let long = json!({ "command": "sleep 1000", "background": true, "timeout_ms": 3_600_000 });
    let id = talk.call("shell", long).await.unwrap()["id"].clone();
    until(&talk, id.as_str().unwrap(), |seen| {
        seen["status"] == "timed_out"
    })
    .await;
    let talk = Talk::confined(
        Confinement::Unconfined,
        OutputLimits::default(),
        |settings| {
            settings.max_background_of_session = 2;
            settings.max_background = 3;
        },
    );
    let first = begin(&talk, "sleep 1000").await;
    begin(&talk, "sleep 1000").await;
    let one_more = json!({ "command": "sleep 1000", "background": true });
    let told = talk.call("shell", one_more.clone()).await.unwrap_err();
    assert!(told.contains("2 commands of this thread"), "{told}");
    let other = SessionId::new();
    talk.call_of(other, "shell", one_more.clone())
        .await
        .unwrap();
    let told = talk
        .call_of(other, "shell", one_more.clone())
        .await
        .unwrap_err();
    assert!(told.contains("3 commands of this host"), "{told}");
    talk.call("shell_stop", json!({ "id": first }))
        .await
        .unwrap();
    talk.call("shell", one_more).await.unwrap();
}

#[tokio::test]
async fn a_command_belongs_to_its_session_and_goes_with_it() {
    for way in ways() {
        let talk = talk(way);
        let beat = "while true; do date +%N > beat; sleep 0.02; done";
        let id = begin(&talk, beat).await;
        soon("it runs", || talk.place.root().join("beat").exists());
        let other = SessionId::new();
        for tool in ["shell_output", "shell_stop"] {
            let told = talk
                .call_of(other, tool, json!({ "id": id }))
                .await
                .unwrap_err();
            assert!(told.contains("there is no command"), "{tool}: {told}");
        }
        talk.remove(other).await;
        assert_eq!(look(&talk, &id).await["status"], "running");
        talk.remove(talk.session_id).await;
        let last = talk.place.text("beat");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(talk.place.text("beat"), last, "{way:?}: it still runs");
        assert!(
            talk.call("shell_output", json!({ "id": id }))
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn after_a_restart_the_outcome_is_unknown_and_the_output_is_there() {
    let talk = talk(Confinement::Unconfined);
    let id = begin(&talk, "echo so far; sleep 1000").await;
    until(&talk, &id, |seen| seen["output"] == "so far\n").await;
    // The host is a new process now, which has no supervisor for the command.
    let talk = talk.restarted();
    let seen = look(&talk, &id).await;
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
    let stopped = talk.call("shell_stop", json!({ "id": id })).await.unwrap();
    assert_eq!(stopped["status"], "unknown");
    // A damaged record has an unknown end too.
    let kept = talk.place.outside().join("kept");
    let session = std::fs::read_dir(kept).unwrap().next().unwrap().unwrap();
    std::fs::write(session.path().join(format!("{id}.json")), "{").unwrap();
    assert_eq!(look(&talk, &id).await["status"], "unknown");
}

#[tokio::test]
async fn an_endless_flood_keeps_its_first_bytes_and_shows_its_newest() {
    let limits = OutputLimits {
        bytes_each: 256 * 1024,
        ..OutputLimits::default()
    };
    let talk = Talk::new(limits);
    let id = begin(
        &talk,
        "echo first; yes flood | head -c 5000000; echo newest; sleep 1000",
    )
    .await;
    let seen = until(&talk, &id, |seen| {
        seen["output"].as_str().unwrap().ends_with("newest\n")
    });
    let seen = seen.await;
    assert_eq!(seen["status"], "running");
    let first = talk
        .call("shell_output", json!({ "id": id, "after": 0 }))
        .await
        .unwrap();
    assert!(first["output"].as_str().unwrap().starts_with("first\n"));
    assert!(
        first["remark"]
            .as_str()
            .unwrap()
            .contains("go on with `after`"),
        "{}",
        first["remark"]
    );
    let stopped = talk.call("shell_stop", json!({ "id": id })).await.unwrap();
    assert!(stopped["output"].as_str().unwrap().ends_with("newest\n"));
}

#[tokio::test]
async fn without_a_place_for_outputs_nothing_runs_in_the_background() {
    let place = Place::confined(Confinement::Unconfined, Default::default());
    let arguments = json!({ "command": "true", "background": true });
    let told = place.call("shell", arguments).await.unwrap_err();
    assert!(told.contains("keeps no outputs"), "{told}");
    let schema = place.tool("shell").parameters_schema();
    assert!(schema["properties"].get("background").is_none());
}

#[test]
fn a_turn_without_commands_is_offered_none_of_their_tools() {
    let idle = windlass_tools::Policy::read_only().idle_tools();
    for tool in ["shell", "shell_output", "shell_stop"] {
        assert!(idle.contains(&tool), "{idle:?}");
    }
    assert!(windlass_tools::Policy::default().idle_tools().is_empty());
}
