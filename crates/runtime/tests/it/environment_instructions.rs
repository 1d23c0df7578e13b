//! Instructions of the environment: requested once per turn, recorded when they change, and reused by a resumed turn.

use serde_json::json;
use std::sync::atomic::Ordering;
use windlass_core::events::EventData;
use windlass_core::tools::ToolPolicy;
use windlass_runtime::{Replay, RuntimeBackends, StopReason};

use crate::support::{Bundle, Fixture, ScriptedCall, Setup, call, soon, tool};

fn saying(bundle: &Bundle, words: Option<&str>) {
    *bundle.environment_says.lock().unwrap() = words.map(str::to_owned);
}

/// The recorded instructions, one entry per change.
async fn recorded(fixture: &Fixture) -> Vec<Option<String>> {
    let events = fixture.events().await;
    let said = events.iter().filter_map(|event| match &event.data {
        EventData::ToolsDiscovered(data) => Some(data.instructions.clone()),
        _ => None,
    });
    said.collect()
}

fn prompt(fixture: &Fixture, call: usize) -> String {
    let messages = fixture.model.requests()[call].to_llm_messages();
    messages[0].content_as_text()
}

fn block(words: &str) -> Option<String> {
    Some(words.to_owned())
}

#[tokio::test]
async fn instructions_are_in_the_prompt_recorded_on_change_and_replayed() {
    let bundle = Bundle::new("words");
    let fixture = Setup::default().bundle(&bundle).build().await;
    fixture.run("one").await;
    saying(&bundle, Some("use tabs"));
    fixture.run("two").await;
    fixture.run("three").await;
    saying(&bundle, Some("use spaces"));
    fixture.run("four").await;
    saying(&bundle, None);
    fixture.run("five").await;
    assert_eq!(
        recorded(&fixture).await,
        [block("use tabs"), block("use spaces"), None]
    );
    let expected = [
        None,
        Some("use tabs"),
        Some("use tabs"),
        Some("use spaces"),
        None,
    ];
    for (call, expected) in expected.into_iter().enumerate() {
        let prompt = prompt(&fixture, call);
        let block = expected.map(|words| format!("<environment>\n{words}\n</environment>"));
        match block {
            Some(block) => assert!(prompt.contains(&block), "{call}: {prompt}"),
            None => assert!(!prompt.contains("<environment>"), "{call}: {prompt}"),
        }
    }
    fixture.assert_sound().await;
    saying(&bundle, Some("of another day"));
    let replay = Replay::of(&fixture.runtime, fixture.session);
    let report = soon(replay.run()).await.unwrap();
    assert_eq!(report.divergence, None);
    assert!(report.reconfigured.is_empty(), "{report:?}");
}

#[tokio::test]
async fn description_of_the_first_turn_is_reused_and_replayed() {
    let bundle = Bundle::new("words");
    let fixture = Setup::default().bundle(&bundle).build().await;
    let describing = |words: &str| {
        *bundle.describes_environment.lock().unwrap() = Some(words.to_owned());
    };
    describing("branch main");
    fixture.run("one").await;
    describing("branch topic");
    fixture.run("two").await;
    saying(&bundle, Some("use tabs"));
    fixture.run("three").await;
    for call in 0..3 {
        let prompt = prompt(&fixture, call);
        assert!(prompt.contains("branch main"), "{call}: {prompt}");
    }
    assert_eq!(prompt(&fixture, 0), prompt(&fixture, 1));
    assert_eq!(recorded(&fixture).await, [None, block("use tabs")]);
    fixture.assert_sound().await;
    let replay = Replay::of(&fixture.runtime, fixture.session);
    let report = soon(replay.run()).await.unwrap();
    assert_eq!(report.divergence, None);
    assert!(report.reconfigured.is_empty(), "{report:?}");
}

#[tokio::test]
async fn resumed_turn_uses_its_recorded_instructions() {
    let backends = RuntimeBackends::in_memory();
    let asks = tool("asks", |_, _| async {
        windlass_core::tools::ToolExecutionResult::success("asked")
    });
    let asks = asks.policy(ToolPolicy::RequiresApproval);
    let bundle = Bundle::new("words").tool(&asks);
    saying(&bundle, Some("as it began"));
    let fixture = Setup::default().bundle(&bundle).backends(backends.clone());
    let fixture = fixture.build().await;
    fixture
        .model
        .rewrite([ScriptedCall::tools(vec![call("c", "asks", json!({}))])]);
    let waiting = fixture.run("go").await;
    assert_eq!(waiting.stop_reason, StopReason::WaitingForApproval);
    fixture.runtime.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(bundle.closed.load(Ordering::SeqCst), 1);

    saying(&bundle, Some("as it is now"));
    let later = Setup::default()
        .bundle(&bundle)
        .backends(backends)
        .build()
        .await;
    let later = Fixture {
        session: fixture.session,
        ..later
    };
    later.model.rewrite([ScriptedCall::answer("done")]);
    later.resume().await.expect("a turn is open");
    let decided = later.runtime.decide_tool_call(later.session, "c", true);
    let ended = soon(decided.await.unwrap().wait()).await.unwrap();
    assert_eq!(ended.response, "done");
    assert!(
        prompt(&later, 0).contains("as it began"),
        "{}",
        prompt(&later, 0)
    );
    later.run("and now").await;
    assert!(prompt(&later, 1).contains("as it is now"));
}

#[tokio::test]
async fn capabilities_are_notified_of_a_removed_session() {
    let bundle = Bundle::new("words");
    let fixture = Setup::default().bundle(&bundle).build().await;
    fixture.run("one").await;
    assert!(bundle.removed.lock().unwrap().is_empty());
    fixture
        .runtime
        .remove_session(fixture.session)
        .await
        .unwrap();
    assert_eq!(*bundle.removed.lock().unwrap(), [fixture.session]);
}

#[tokio::test]
async fn secret_in_instructions_is_masked() {
    use windlass_core::named_secrets::{NamedSecret, NamedSecrets};
    let value = "rope-and-tar-7391";
    let secret = NamedSecret {
        name: "TOKEN".to_owned(),
        value: value.to_owned(),
        in_commands: true,
        header: None,
        agents: Vec::new(),
    };
    let secrets = NamedSecrets::new(vec![secret]).unwrap();
    let bundle = Bundle::new("words");
    saying(&bundle, Some(&format!("log in with {value}")));
    let setup = Setup::default()
        .bundle(&bundle)
        .settings(|settings| settings.secrets = secrets);
    let fixture = setup.build().await;
    fixture.run("go").await;
    assert_eq!(
        recorded(&fixture).await,
        [block("log in with [secret:TOKEN]")]
    );
    let prompt = prompt(&fixture, 0);
    assert!(prompt.contains("[secret:TOKEN]") && !prompt.contains(value));
}
