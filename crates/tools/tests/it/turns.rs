//! Tools in turns of a real runtime: approval, environment, interrupt.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::capabilities::{AgentCapabilityConfig, Capability};
use windlass_core::events::EventData;
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_core::message::InputMessage;
use windlass_core::tools::{SideEffectClass, ToolPolicy, ToolShape};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_request::TurnRequest;
use windlass_runtime::{Conversation, Need};
use windlass_tools::{FilesCapability, Policy, ShellCapability};

use crate::support::{TestWorkspace, sandboxes, soon, ways};

fn calling(name: &str, arguments: Value) -> SimTurn {
    SimTurn::ToolCalls(vec![SimToolCall::new(name, arguments)])
}

/// A conversation whose model makes these calls, one per answer, and then finishes.
async fn conversation(
    workspace: &TestWorkspace,
    config: Value,
    calls: Vec<SimTurn>,
) -> Conversation {
    let turns = calls
        .into_iter()
        .flat_map(|call| [call, SimTurn::Assistant("done".into())]);
    let files = FilesCapability::new(workspace.environments.clone());
    let shell = ShellCapability::new(workspace.environments.clone(), workspace.settings.clone());
    Conversation::builder()
        .simulator(LlmSimConfig::scripted(turns.collect()))
        .with_runtime(|runtime| runtime.capability(files).capability(shell))
        .capability(AgentCapabilityConfig::with_config("files", config.clone()))
        .capability(AgentCapabilityConfig::with_config("shell", config))
        .start()
        .await
        .unwrap()
}

fn never() -> Value {
    json!({ "approval": "never" })
}

#[tokio::test]
async fn change_waits_for_approval() {
    let workspace = TestWorkspace::new();
    let calls = vec![
        calling("write", json!({"path": "yes", "content": "x"})),
        calling("write", json!({"path": "no", "content": "x"})),
        calling("shell", json!({"command": "echo x > shell"})),
    ];
    let mut chat = conversation(&workspace, Value::Null, calls).await;
    for (name, is_allowed) in [("yes", true), ("no", false), ("shell", false)] {
        let waiting = chat.say("continue").await.unwrap();
        let call = waiting.pending[0].clone();
        assert_eq!(call.need, Need::Approval);
        assert!(
            !workspace.root().join(name).exists(),
            "{name} is not there yet"
        );
        let reply = if is_allowed {
            chat.approve(&call).await.unwrap()
        } else {
            chat.refuse(&call).await.unwrap()
        };
        assert_eq!(reply.text, "done");
        assert_eq!(workspace.root().join(name).exists(), is_allowed, "{name}");
    }
}

#[tokio::test]
async fn reads_and_approved_changes_need_no_approval() {
    let write = || calling("write", json!({"path": "f", "content": "x"}));
    let look = calling("grep", json!({"pattern": "x"}));
    let workspace = TestWorkspace::new();
    let mut chat = conversation(&workspace, Value::Null, vec![look, write()]).await;
    assert_eq!(chat.say("look").await.unwrap().text, "done");
    let input = InputMessage::user("write").with_turn_request(TurnRequest {
        approve_all: true,
        ..TurnRequest::default()
    });
    assert_eq!(chat.say(input).await.unwrap().text, "done");
    assert_eq!(workspace.text("f"), "x");

    let workspace = TestWorkspace::new();
    let mut chat = conversation(&workspace, never(), vec![write()]).await;
    assert_eq!(chat.say("write").await.unwrap().text, "done");
    assert_eq!(workspace.text("f"), "x");
}

#[tokio::test]
async fn turn_uses_the_directory_of_its_input() {
    let write = |content: &str| calling("write", json!({"path": "f", "content": content}));
    let workspace = TestWorkspace::new().files(&[("sub/", "")]);
    let calls = vec![write("one"), write("two"), write("three")];
    let mut chat = conversation(&workspace, never(), calls).await;
    let input = |environment: TurnEnvironment| {
        InputMessage::user("continue").with_turn_request(TurnRequest {
            environment: Some(environment),
            ..TurnRequest::default()
        })
    };
    let here = TurnEnvironment::new("local", "sub");
    chat.say(input(here.clone())).await.unwrap();
    assert_eq!(workspace.text("sub/f"), "one");
    chat.say("continue").await.unwrap();
    assert_eq!(workspace.text("f"), "two");
    chat.say(input(here.read_only())).await.unwrap();
    assert_eq!(workspace.text("sub/f"), "one");
    let messages = chat.messages().await.unwrap();
    let errors = messages
        .iter()
        .filter_map(|message| message.tool_result_content()?.error.clone());
    let errors: Vec<_> = errors.collect();
    assert_eq!(
        errors,
        ["environment `local` is read-only here: f is not changed"]
    );
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupt_ends_the_turn_and_its_processes() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        // The lock is held while any process is alive that has the file open.
        let command = "trap '' TERM; exec 9>lock; flock 9; (sleep 86400 &); : > up; sleep 86400";
        let calls = vec![calling("shell", json!({ "command": command }))];
        let chat = conversation(&workspace, never(), calls).await;
        let runtime = chat.runtime().clone();
        let handle = runtime.submit(chat.session_id(), "run it").await.unwrap();
        soon("the command runs", || workspace.root().join("up").exists());
        runtime
            .interrupt(chat.session_id(), None, None)
            .await
            .unwrap();
        let turn = handle.wait().await.unwrap();
        assert!(!turn.success, "{turn:?}");
        let lock = workspace.root().join("lock");
        soon("the lock is released", || {
            let free = std::process::Command::new("flock")
                .arg("-n")
                .arg(&lock)
                .arg("true")
                .status();
            free.unwrap().success()
        });
    }
}

#[tokio::test]
async fn output_is_recorded_while_the_command_runs() {
    let workspace = TestWorkspace::new();
    let calls = vec![calling("shell", json!({"command": "echo hello"}))];
    if sandboxes().is_empty() {
        return;
    }
    let mut chat = conversation(&workspace, never(), calls).await;
    chat.say("run it").await.unwrap();
    let events = chat.runtime().events().await.unwrap();
    let shown: String = events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::ToolOutputDelta(data) => Some(data.delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, "hello\n");
}

#[test]
fn tools_declare_side_effects_and_concurrency() {
    use SideEffectClass::{AtMostOnce, Idempotent, Pure};
    use ToolPolicy::{Auto, RequiresApproval};

    let workspace = TestWorkspace::new();
    let files = FilesCapability::new(workspace.environments.clone());
    let shell = ShellCapability::new(workspace.environments.clone(), workspace.settings);
    let capabilities: [Arc<dyn Capability>; 2] = [Arc::new(files), Arc::new(shell)];
    let mut input = Vec::new();
    for capability in &capabilities {
        for tool in capability.tools() {
            let definition = tool.to_definition();
            let hints = definition.hints();
            input.push((
                definition.name().to_owned(),
                hints.side_effects(),
                hints.concurrency_class.is_some(),
                definition.policy(),
                hints.shape.unwrap_or_default(),
            ));
        }
        let odd = json!({ "approval": "sometimes" });
        assert!(capability.validate_config(&odd).is_err());
    }
    let expected = [
        ("read", Pure, false, Auto, ToolShape::Call),
        (
            "write",
            Idempotent,
            true,
            RequiresApproval,
            ToolShape::FileChange,
        ),
        (
            "edit",
            AtMostOnce,
            true,
            RequiresApproval,
            ToolShape::FileChange,
        ),
        ("list", Pure, false, Auto, ToolShape::Call),
        ("glob", Pure, false, Auto, ToolShape::Call),
        ("grep", Pure, false, Auto, ToolShape::Call),
        (
            "shell",
            AtMostOnce,
            true,
            RequiresApproval,
            ToolShape::Command,
        ),
    ];
    let expected = expected.map(|(name, effects, in_order, policy, shape)| {
        (name.to_owned(), effects, in_order, policy, shape)
    });
    assert_eq!(input, expected);
}
