//! Commands: results, limits, variables.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::error::Result as CoreResult;
use windlass_core::events::{Event, EventData, EventRequest};
use windlass_core::traits::EventEmitter;
use windlass_tools::{ALLOWED_VARIABLES, Confinement, Policy, ShellSettings};

use crate::support::{TestWorkspace, ways};

#[tokio::test]
async fn result_has_exit_code_and_both_outputs_in_order() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default()).files(&[("sub/f", "")]);
        let ran = workspace
            .shell("echo out; echo err >&2; echo end; exit 3")
            .await
            .unwrap();
        assert_eq!(ran["exit_code"], 3, "{way:?}: {ran}");
        assert_eq!(ran["output"], "out\nerr\nend\n", "{way:?}");
        assert_eq!(ran["remark"], Value::Null);
        let arguments = json!({"command": "pwd; ls; echo x > made", "cwd": "sub"});
        let ran = workspace.call("shell", arguments).await.unwrap();
        let here = workspace.root().join("sub");
        assert_eq!(ran["output"], format!("{}\nf\n", here.display()), "{way:?}");
        assert_eq!(workspace.text("sub/made"), "x\n");
    }
}

#[tokio::test]
async fn result_names_the_sandbox_and_the_signal() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let ran = workspace.shell("kill -9 $$").await.unwrap();
        assert_eq!(ran["exit_code"], 137, "{way:?}: {ran}");
        let (name, signal) = match way {
            Confinement::Bubblewrap => ("bubblewrap", Value::Null),
            Confinement::Landlock => ("landlock", json!(9)),
            Confinement::Unconfined => ("none", json!(9)),
        };
        assert_eq!((&ran["sandbox"], &ran["signal"]), (&json!(name), &signal));
    }
}

#[tokio::test]
async fn command_has_no_input_and_a_private_temporary_directory() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let ran = workspace
            .shell("cat; f=$(mktemp) && echo x > $f && cat $f && dirname $f")
            .await;
        let ran = ran.unwrap();
        let output = ran["output"].as_str().unwrap();
        let (first, directory) = output.trim().split_once('\n').unwrap();
        assert_eq!(
            (first, &ran["exit_code"]),
            ("x", &json!(0)),
            "{way:?}: {ran}"
        );
        let is_private =
            way == Confinement::Bubblewrap || !std::path::Path::new(directory).exists();
        assert!(is_private, "{way:?}: {directory} is left behind");
    }
}

#[tokio::test]
async fn command_has_only_the_configured_variables() {
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some(),
        "a variable of the host"
    );
    for way in ways() {
        let mut workspace = TestWorkspace::confined(way, Policy::default());
        let host = [
            ("API_KEY", "s3cret"),
            ("LD_PRELOAD", "/x.so"),
            ("TZ", "UTC"),
            ("HOME", "/h"),
        ];
        workspace.settings = workspace.settings.with_variables_of(host);
        let ran = workspace
            .shell("env; cat /proc/self/environ | tr '\\0' '\\n'")
            .await
            .unwrap();
        let output = ran["output"].as_str().unwrap();
        assert!(
            output.contains("TZ=UTC\n") && !output.contains("HOME=/h\n"),
            "{output}"
        );
        let known = [
            "HOME",
            "TERM",
            "TMPDIR",
            "WINDLASS_CALL",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
        ];
        for line in output.lines() {
            let name = line.split_once('=').map_or(line, |(name, _)| name);
            let is_known = known.contains(&name) || ALLOWED_VARIABLES.contains(&name);
            assert!(is_known, "{way:?}: {line}");
        }
    }
}

#[tokio::test]
async fn long_output_shows_its_beginning_and_end() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let flood = "echo first; yes flood | head -c 18000000; echo last";
        let ran = workspace.shell(flood).await.unwrap();
        let output = ran["output"].as_str().unwrap();
        assert!(output.len() < 34 * 1024, "{}", output.len());
        assert!(output.starts_with("first\nflood\n") && output.ends_with("flood\nlast\n"));
        assert!(output.contains(" bytes left out …]"));
        assert!(
            ran["remark"]
                .as_str()
                .unwrap()
                .starts_with("the output had 18000011 bytes")
        );
    }
}

#[tokio::test]
async fn timed_out_command_is_stopped_and_its_output_returned() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let arguments = json!({"command": "echo began; sleep 600", "timeout_ms": 1500});
        let error = workspace.call("shell", arguments).await.unwrap_err();
        assert!(
            error.starts_with("the command did not end within 1500 ms"),
            "{error}"
        );
        assert!(error.ends_with("began\n"), "{error}");
    }
    let mut workspace = TestWorkspace::confined(Confinement::Unconfined, Policy::default());
    workspace.settings.max_timeout = Duration::from_millis(200);
    let arguments = json!({"command": "sleep 600", "timeout_ms": 600_000});
    let error = workspace.call("shell", arguments).await.unwrap_err();
    assert!(error.contains("within 200 ms"), "{error}");
}

#[tokio::test]
async fn unusable_command_is_an_error() {
    let workspace = TestWorkspace::new();
    for (arguments, error) in [
        (json!({"command": " \n"}), "`command` must not be blank"),
        (json!({"command": "a\0b"}), "`command` contains a NUL"),
        (
            json!({"command": "x", "cwd": "missing"}),
            "missing does not exist",
        ),
    ] {
        let actual = workspace.call("shell", arguments).await.unwrap_err();
        assert!(actual.starts_with(error), "{actual}");
    }
    let mut workspace = TestWorkspace::new();
    workspace.settings.ways = Vec::new();
    let error = workspace.shell("echo x > f").await.unwrap_err();
    assert!(
        error.starts_with("no sandbox works on this machine"),
        "{error}"
    );
    assert!(!workspace.root().join("f").exists());
    let mut workspace = TestWorkspace::new();
    workspace.settings = ShellSettings {
        shell: "/nowhere/sh".into(),
        ..workspace.settings
    };
    workspace
        .settings
        .ways
        .retain(|way| *way != Confinement::Bubblewrap);
    let error = workspace.shell("true").await.unwrap_err();
    assert!(
        error.starts_with("cannot start the command") || error.starts_with("no sandbox"),
        "{error}"
    );
}

/// Collects the shown output.
#[derive(Default)]
struct StreamedOutput(Mutex<Vec<String>>);

#[async_trait]
impl EventEmitter for StreamedOutput {
    async fn emit(&self, request: EventRequest) -> CoreResult<Event> {
        if let EventData::ToolOutputDelta(data) = &request.data {
            self.0.lock().unwrap().push(data.delta.clone());
        }
        Err(windlass_core::error::AgentLoopError::event("not recorded"))
    }
}

#[tokio::test]
async fn output_is_streamed_while_the_command_runs() {
    let workspace = TestWorkspace::confined(Confinement::Unconfined, Policy::default());
    let shown = Arc::new(StreamedOutput::default());
    let context = workspace.context().with_event_emitter(shown.clone());
    // The command continues only after its first output was seen.
    let command = json!({"command": "echo one; until [ -e go ]; do sleep 0.02; done; echo two"});
    let tool = workspace.tool("shell");
    let call = tool.execute_with_context(command, &context);
    let watch = async {
        while shown.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::fs::write(workspace.root().join("go"), "").unwrap();
    };
    let (ran, ()) = tokio::join!(call, watch);
    assert!(ran.is_success(), "{ran:?}");
    let shown = shown.0.lock().unwrap();
    assert!(shown.len() >= 2 && shown[0] == "one\n", "{shown:?}");
    assert_eq!(shown.concat(), "one\ntwo\n");
}
