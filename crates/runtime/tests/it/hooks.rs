//! R16: code of the application that panics or hangs around a turn.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use windlass_core::atoms::{
    OutputGuardrail, OutputGuardrailContext, OutputGuardrailRun, OutputGuardrailVerdict,
    PostToolExecHook, PreToolUseDecision, PreToolUseHook, ToolCallHook, ToolDefinitionHook,
};
use windlass_core::error::AgentLoopError;
use windlass_core::message_filter::MessageQuery;
use windlass_core::tools::{
    INTERNAL_ERROR_TEXT, ToolCall, ToolDefinition, ToolExecutionResult, ToolResult,
};
use windlass_core::traits::ToolContext;
use windlass_policy::{ApprovalAction, ApprovalRule, ApprovalRules};
use windlass_runtime::StopReason;

use crate::support::{Bundle, Fixture, FnTool, Gate, ScriptedCall, Setup, Trap, call, soon, tool};
use crate::tools::{hello, hello_call};

#[tokio::test]
async fn r16_panicking_tool_is_an_internal_error_and_the_turn_continues() {
    let bomb = tool("bomb", |_, _| async {
        panic!("scripted: the secret is 42")
    });
    let fixture = Setup::new([ScriptedCall::tools(vec![call("c", "bomb", json!({}))])])
        .tool(&bomb)
        .build()
        .await;
    let turn = fixture.run("go").await;
    assert!(turn.success);
    let sent = fixture.model.sent(1).pop().unwrap();
    assert!(
        sent.contains(INTERNAL_ERROR_TEXT) && !sent.contains("42"),
        "{sent}"
    );
    fixture.assert_usable().await;
}

struct Bomb;

#[async_trait]
impl PreToolUseHook for Bomb {
    async fn before_exec(
        &self,
        _: ToolCall,
        _: &ToolDefinition,
        _: &ToolContext,
    ) -> PreToolUseDecision {
        panic!("scripted")
    }
}
#[async_trait]
impl PostToolExecHook for Bomb {
    async fn after_exec(
        &self,
        _: &ToolCall,
        _: &ToolDefinition,
        _: &mut ToolResult,
        _: &ToolContext,
    ) {
        panic!("scripted")
    }
}
impl ToolCallHook for Bomb {
    fn transform(&self, _: ToolCall) -> ToolCall {
        panic!("scripted")
    }
}
impl ToolDefinitionHook for Bomb {
    fn transform(&self, _: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
        panic!("scripted")
    }
}
impl OutputGuardrail for Bomb {
    fn id(&self) -> &str {
        "bomb"
    }
    fn arm(&self, _: &OutputGuardrailContext<'_>) -> Option<Box<dyn OutputGuardrailRun>> {
        panic!("scripted")
    }
}
impl windlass_core::message_filter::MessageFilterProvider for Bomb {
    fn apply_filters(&self, _: &mut MessageQuery, _: &serde_json::Value) {
        panic!("scripted")
    }
}
impl windlass_core::atoms::ModelViewProvider for Bomb {
    fn apply_model_view(
        &self,
        _: Vec<windlass_core::message::Message>,
        _: &serde_json::Value,
        _: &windlass_core::atoms::ModelViewContext<'_>,
    ) -> Vec<windlass_core::message::Message> {
        panic!("scripted")
    }
}

struct ArmedBomb;
struct BombRun;

impl OutputGuardrail for ArmedBomb {
    fn id(&self) -> &str {
        "armed"
    }
    fn arm(&self, _: &OutputGuardrailContext<'_>) -> Option<Box<dyn OutputGuardrailRun>> {
        Some(Box::new(BombRun))
    }
}
impl OutputGuardrailRun for BombRun {
    fn check(&mut self, _: &str, _: &str) -> OutputGuardrailVerdict {
        panic!("scripted")
    }
}

#[tokio::test]
async fn r16_panicking_tool_hook_is_an_internal_error_and_the_turn_continues() {
    let (pre, post) = (
        Bundle::new("hooks").tool(&hello()),
        Bundle::new("hooks").tool(&hello()),
    );
    let pre = Bundle {
        pre: vec![Arc::new(Bomb)],
        ..pre
    };
    let post = Bundle {
        post: vec![Arc::new(Bomb)],
        ..post
    };
    for bundle in [pre, post] {
        let fixture = Setup::new([hello_call()]).bundle(&bundle).build().await;
        assert!(fixture.run("go").await.success);
        assert!(fixture.model.sent(1)[2].contains(INTERNAL_ERROR_TEXT));
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_panicking_views_and_call_hooks_are_skipped() {
    let on_call = Bundle {
        on_call: vec![Arc::new(Bomb)],
        ..Bundle::new("b").tool(&hello())
    };
    let filter = Bundle {
        filter: Some(Arc::new(Bomb)),
        ..Bundle::new("b").tool(&hello())
    };
    let view = Bundle {
        view: Some(Arc::new(Bomb)),
        ..Bundle::new("b").tool(&hello())
    };
    for bundle in [on_call, filter, view] {
        let fixture = Setup::new([hello_call()]).bundle(&bundle).build().await;
        assert!(fixture.run("go").await.success);
        assert_eq!(
            fixture.model.sent(1),
            ["User: go", "Assistant:  [c]", "Tool: \"hello\""]
        );
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_a_guardrail_that_panics_fails_the_turn_and_nothing_unguarded_is_shown() {
    let arm = Bundle {
        guardrails: vec![Arc::new(Bomb)],
        ..Bundle::new("rails")
    };
    let check = Bundle {
        guardrails: vec![Arc::new(ArmedBomb)],
        ..Bundle::new("rails")
    };
    for bundle in [arm, check] {
        let fixture = Setup::new([ScriptedCall::answer("unguarded")])
            .bundle(&bundle)
            .build()
            .await;
        let turn = fixture.run("go").await;
        assert_eq!(
            (turn.success, turn.stop_reason),
            (false, StopReason::Failed)
        );
        assert!(
            turn.error.as_deref().unwrap().contains("guardrail"),
            "{:?}",
            turn.error
        );
        let events = serde_json::to_string(&fixture.runtime.events().await.unwrap()).unwrap();
        assert!(!events.contains("unguarded"));
        // The thread still works: it can run another turn.
        assert_eq!(fixture.run("again").await.stop_reason, StopReason::Failed);
        fixture.assert_sound().await;
    }
}

#[tokio::test]
async fn r16_a_capability_that_panics_is_named_and_later_turns_work() {
    for trap in [
        Trap::Tools,
        Trap::Prompt,
        Trap::Status,
        Trap::ResolveForModel,
    ] {
        let bundle = Bundle::new("shaky").tool(&hello());
        let fixture = Setup::new([]).bundle(&bundle).build().await;
        bundle.set_trap(Some(trap));
        match fixture.try_run("go").await {
            Err(AgentLoopError::Configuration(text)) => assert!(
                text.contains("shaky") || text.contains("panicked"),
                "{text}"
            ),
            other => panic!("{trap:?}: {other:?}"),
        }
        assert!(
            matches!(
                fixture.runtime.load_context(fixture.session).await,
                Err(AgentLoopError::Configuration(_))
            ),
            "{trap:?}"
        );
        bundle.set_trap(None);
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_a_capability_that_panics_in_front_of_a_queued_turn_fails_that_turn() {
    let gate = Gate::shut();
    let bundle = Bundle::new("shaky").tool(&hello());
    let fixture = Setup::new([ScriptedCall::new().wait(&gate).text("first").done()])
        .bundle(&bundle)
        .build()
        .await;
    let first = fixture
        .runtime
        .submit(fixture.session, "first")
        .await
        .unwrap();
    gate.reached(1).await;
    let second = fixture
        .runtime
        .submit(fixture.session, "second")
        .await
        .unwrap();
    bundle.set_trap(Some(Trap::ResolveForModel));
    gate.open();
    assert!(soon(first.wait()).await.unwrap().success);
    let second = soon(second.wait()).await.unwrap();
    assert_eq!(second.stop_reason, StopReason::Failed);
    assert_eq!(second.error_code.as_deref(), Some("configuration"));
    bundle.set_trap(None);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn r16_a_hook_that_hangs_is_bounded_like_its_tool() {
    struct Hang;
    #[async_trait]
    impl PreToolUseHook for Hang {
        async fn before_exec(
            &self,
            _: ToolCall,
            _: &ToolDefinition,
            _: &ToolContext,
        ) -> PreToolUseDecision {
            std::future::pending().await
        }
    }
    #[async_trait]
    impl PostToolExecHook for Hang {
        async fn after_exec(
            &self,
            _: &ToolCall,
            _: &ToolDefinition,
            _: &mut ToolResult,
            _: &ToolContext,
        ) {
            std::future::pending().await
        }
    }
    let limit = Duration::from_secs(41);
    let pre = Bundle {
        pre: vec![Arc::new(Hang)],
        ..Bundle::new("b").tool(&hello())
    };
    let post = Bundle {
        post: vec![Arc::new(Hang)],
        ..Bundle::new("b").tool(&hello())
    };
    for bundle in [pre, post] {
        let fixture = Setup::new([hello_call()])
            .bundle(&bundle)
            .settings(|settings| settings.tool_timeout = Some(limit))
            .build()
            .await;
        let turn = fixture.start("go");
        fixture.clock.asleep_for(limit).await;
        // The tool itself takes no time; at most its hook still waits.
        while !turn.is_finished() {
            fixture.clock.advance(limit);
            tokio::task::yield_now().await;
        }
        assert!(turn.await.unwrap().unwrap().success);
        assert!(
            fixture.model.sent(1)[2].contains("41000 ms"),
            "{:?}",
            fixture.model.sent(1)
        );
        fixture.assert_usable().await;
    }
}

#[tokio::test]
async fn r16_commands_and_files_of_a_capability_that_panics_are_errors_that_name_it() {
    let bundle = Bundle {
        command: Some(("ping", "pong")),
        ..Bundle::new("shaky")
    };
    let fixture = Setup::new([]).bundle(&bundle).build().await;
    let request = || windlass_core::command::ExecuteCommandRequest {
        name: "ping".into(),
        arguments: None,
        controls: None,
    };
    let run = || fixture.runtime.execute_command(fixture.session, request());
    assert_eq!(run().await.unwrap().message, "pong");
    bundle.set_trap(Some(Trap::Command));
    let error = run().await.unwrap_err().to_string();
    assert!(error.contains("/ping"), "{error}");
    bundle.set_trap(Some(Trap::Commands));
    for error in [
        run().await.unwrap_err(),
        fixture
            .runtime
            .list_commands(fixture.session)
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(&error, AgentLoopError::Configuration(text) if text.contains("shaky")),
            "{error}"
        );
    }
    bundle.set_trap(Some(Trap::Mounts));
    let session = fixture.runtime.session(fixture.session).await.unwrap();
    let error = fixture.runtime.add_session(session).await.unwrap_err();
    assert!(
        matches!(&error, AgentLoopError::Configuration(text) if text.contains("shaky")),
        "{error}"
    );
    bundle.set_trap(None);
    fixture.assert_usable().await;
}

/// Replaces the arguments of every call.
struct Replaces(serde_json::Value);

#[async_trait]
impl PreToolUseHook for Replaces {
    async fn before_exec(
        &self,
        call: ToolCall,
        _: &ToolDefinition,
        _: &ToolContext,
    ) -> PreToolUseDecision {
        PreToolUseDecision::Continue(ToolCall {
            arguments: self.0.clone(),
            ..call
        })
    }
}

fn rule(path: Option<&str>, action: ApprovalAction) -> ApprovalRule {
    let path = path.map(|path| ("path".to_owned(), path.to_owned()));
    ApprovalRule {
        tool: "save".to_owned(),
        arguments: path.into_iter().collect(),
        command: None,
        action,
    }
}

/// A tool `save` under some rules, with a hook that redirects it to `secret/key`.
async fn redirected(rules: Vec<ApprovalRule>) -> (Fixture, FnTool) {
    let save = tool("save", |_, _| async {
        ToolExecutionResult::success("saved")
    });
    let mut bundle = Bundle::new("saving").tool(&save);
    bundle
        .pre
        .push(Arc::new(Replaces(json!({"path": "secret/key"}))));
    let asked = vec![call("c", "save", json!({"path": "notes"}))];
    let setup = Setup::new([ScriptedCall::tools(asked)]).bundle(&bundle);
    let setup = setup.settings(|settings| {
        settings.approvals = Arc::new(ApprovalRules {
            rules,
            ..ApprovalRules::default()
        });
    });
    (setup.build().await, save)
}

#[tokio::test]
async fn changed_arguments_are_checked_against_the_rules_again() {
    for (rules, runs) in [
        (vec![], 1),
        (vec![rule(Some("other/**"), ApprovalAction::Deny)], 1),
        (vec![rule(Some("secret/**"), ApprovalAction::Deny)], 0),
        (vec![rule(Some("secret/**"), ApprovalAction::Ask)], 0),
    ] {
        let (fixture, save) = redirected(rules.clone()).await;
        let turn = fixture.run("go").await;
        assert!(turn.success, "{turn:?}");
        assert_eq!(save.runs(), runs, "{rules:?}");
    }
}

#[tokio::test]
async fn hook_cannot_change_an_approved_call() {
    let (fixture, save) = redirected(vec![rule(Some("notes"), ApprovalAction::Ask)]).await;
    let parked = fixture.run("go").await;
    assert_eq!(parked.stop_reason, StopReason::WaitingForApproval);
    let approved = fixture.runtime.decide_tool_call(fixture.session, "c", true);
    let approved = approved.await.unwrap();
    assert!(soon(approved.wait()).await.unwrap().success);
    assert_eq!(save.runs(), 0);
}
