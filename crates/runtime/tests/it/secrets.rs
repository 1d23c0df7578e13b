//! R71: secrets and keys reach the tools and servers that need them, and no record.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError};
use windlass_core::events::EventData;
use windlass_core::llm_driver_registry::LlmStreamEvent;
use windlass_core::llm_models::ModelWithProvider;
use windlass_core::message::Message;
use windlass_core::tools::{ToolExecutionResult, ToolHints, ToolPolicy};
use windlass_core::traits::SessionStorageStore;
use windlass_runtime::{
    InMemorySessionStorageStore, MemoryJournal, RuntimeBackends, RuntimeHostAdapter, StopReason,
};

use crate::support::{
    Fixture, FnTool, Gate, ScriptedCall, Setup, SpyJournal, call, event, scripted_model, soon, tool,
};

const SECRET: &str = "hunter2-\"and\"-more";
const KEY: &str = "sk-0123456789abcdef";

type Got = Arc<Mutex<Vec<Value>>>;

/// A tool that stores its arguments.
fn keeper(name: &str) -> (FnTool, Got) {
    let got = Got::default();
    let seen = Arc::clone(&got);
    let tool = tool(name, move |arguments, _| {
        seen.lock().unwrap().push(arguments);
        async { ToolExecutionResult::success("done") }
    });
    (tool, got)
}

fn set_secret() -> ScriptedCall {
    let arguments = json!({"operation": "set", "name": "db", "value": SECRET});
    ScriptedCall::tools(vec![call("set", "secret_store", arguments)])
}

fn with_storage(setup: Setup) -> Setup {
    setup.session(|session| session.with_capability("session_storage"))
}

/// All records of a session, as text. JSON inside of JSON is included.
async fn records(fixture: &Fixture) -> String {
    let events = fixture.events().await;
    let events: Vec<&windlass_core::events::Event> = events.iter().map(|event| &**event).collect();
    let events = serde_json::to_string(&events).unwrap();
    let messages = serde_json::to_string(&fixture.messages().await).unwrap();
    format!("{events}\n{messages}")
}

fn shows(text: &str, secret: &str) -> bool {
    let in_json = serde_json::to_string(secret).unwrap();
    text.contains(secret) || text.contains(in_json.trim_matches('"'))
}

#[tokio::test]
async fn r71_a_stored_secret_reaches_the_tools_and_no_record() {
    let (spend, got) = keeper("spend");
    let quoted = json!({"password": SECRET, "headers": [format!("Bearer {SECRET}")]});
    let fixture = with_storage(Setup::new([
        set_secret(),
        ScriptedCall::tools(vec![call("spend", "spend", quoted.clone())]),
        ScriptedCall::answer(&format!("I used {SECRET}.")),
    ]))
    .tool(&spend)
    .build()
    .await;

    let turn = fixture.run("Keep my password").await;
    assert_eq!(turn.response, "I used [secret:db].");
    fixture.run(&format!("Was it {SECRET}?")).await;

    let store = fixture.runtime.storage_store().unwrap();
    let stored = store.get_secret(fixture.session, "db").await.unwrap();
    assert_eq!(stored.as_deref(), Some(SECRET));
    assert_eq!(*got.lock().unwrap(), [quoted]);
    let records = records(&fixture).await;
    assert!(!shows(&records, SECRET), "{records}");
    for shown in [
        r#""value":"[secret:value]""#,
        r#"{"headers":["Bearer [secret:db]"],"password":"[secret:db]"}"#,
        "Was it [secret:db]?",
    ] {
        assert!(records.contains(shown), "{shown} is not in {records}");
    }
    // The model reads the recorded form.
    let messages = fixture.model.requests().pop().unwrap().to_llm_messages();
    assert!(!shows(&format!("{messages:?}"), SECRET), "{messages:?}");
    fixture.assert_sound().await;
}

#[tokio::test]
async fn r71_tool_output_is_not_masked() {
    let get = json!({"operation": "get", "name": "db"});
    let fixture = with_storage(Setup::new([
        set_secret(),
        ScriptedCall::tools(vec![call("get", "secret_store", get)]),
    ]))
    .build()
    .await;
    fixture.run("What is it?").await;
    for event in fixture.events().await {
        let text = serde_json::to_string(&*event).unwrap();
        let returned =
            matches!(&event.data, EventData::ToolCompleted(data) if data.tool_call_id == "get");
        assert_eq!(shows(&text, SECRET), returned, "{text}");
    }
}

#[tokio::test]
async fn r71_a_refused_call_does_not_quote_its_secret() {
    let schema = json!({
        "type": "object",
        "properties": {"token": {"type": "string", "maxLength": 3}, "n": {"type": "integer"}},
        "required": ["n"]
    });
    let hints = ToolHints::default().with_secret_arguments(["token".to_owned()]);
    let (tool, got) = keeper("login");
    let tool = tool.schema(schema).hints(hints);
    let fixture = Setup::new([
        ScriptedCall::tools(vec![call("a", "login", json!({"token": SECRET, "n": 1}))]),
        ScriptedCall::tools(vec![call("b", "login", json!({"token": 12_345_678}))]),
        ScriptedCall::new()
            .text(&format!("I try {SECRET}."))
            .say(
                windlass_core::llm_driver_registry::LlmStreamEvent::ToolCalls(vec![call(
                    "c",
                    "login",
                    json!({"token": SECRET, "n": "one"}),
                )]),
            )
            .done(),
    ])
    .tool(&tool)
    .build()
    .await;
    fixture.run("Log in").await;
    let records = records(&fixture).await;
    assert!(!records.contains("12345678"), "{records}");
    assert!(!shows(&records, SECRET), "{records}");
    assert!(records.contains("I try [secret:token]."), "{records}");
    if cfg!(feature = "schema") {
        assert!(got.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn r71_a_secret_that_streams_in_pieces_is_masked() {
    let gate = Gate::shut();
    let (first, second) = SECRET.split_at(5);
    let storage = InMemorySessionStorageStore::new();
    let fixture = Setup::new([ScriptedCall::new()
        .text(&format!("It is {first}"))
        .wait(&gate)
        .text(&format!("{second}, I think."))
        .done()])
    .backends(RuntimeBackends::in_memory().with_storage_store(Arc::new(storage.clone())))
    .build()
    .await;
    // The host sets it directly in the store, before there is a thread.
    storage
        .set_secret(fixture.session, "db", SECRET)
        .await
        .unwrap();

    let mut events = fixture.runtime.subscribe(fixture.session).await.unwrap();
    let turn = fixture.start("What is it?");
    gate.reached(1).await;
    fixture.clock.asleep_for(Duration::from_millis(32)).await;
    fixture.clock.advance(Duration::from_millis(32));
    let delta = event(&mut events, "output.message.delta").await;
    assert!(
        matches!(&delta.data, EventData::OutputMessageDelta(data) if data.delta == "It is "),
        "{delta:?}"
    );
    gate.open();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(turn.response, "It is [secret:db], I think.");
    let deltas: String = fixture
        .events()
        .await
        .iter()
        .filter_map(|event| match &event.data {
            EventData::OutputMessageDelta(data) => Some(data.delta.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(deltas, turn.response);
}

#[tokio::test]
async fn r71_interrupted_answer_has_its_held_back_end() {
    let gate = Gate::shut();
    let storage = InMemorySessionStorageStore::new();
    let fixture = Setup::new([ScriptedCall::new()
        .text("Let us go for a hunt")
        .wait(&gate)
        .done()])
    .backends(RuntimeBackends::in_memory().with_storage_store(Arc::new(storage.clone())))
    .build()
    .await;
    storage
        .set_secret(fixture.session, "db", SECRET)
        .await
        .unwrap();
    let turn = fixture.start("What now?");
    gate.reached(1).await;
    fixture.clock.asleep_for(Duration::from_millis(32)).await;
    fixture.clock.advance(Duration::from_millis(32));
    fixture.runtime.cancel_turn(fixture.session).await.unwrap();
    let turn = soon(turn).await.unwrap().unwrap();
    assert_eq!(turn.response, "Let us go for a hunt");
}

#[tokio::test]
async fn r71_call_without_its_secret_after_a_restart_does_not_run() {
    let (pay, got) = keeper("pay");
    let hints = ToolHints::default().with_secret_arguments(["pin".to_owned()]);
    let pay = pay.hints(hints).policy(ToolPolicy::RequiresApproval);
    let calls = || ScriptedCall::tools(vec![call("pay", "pay", json!({"pin": 4711, "to": "Ada"}))]);
    let journal = SpyJournal::new(MemoryJournal::new());
    let fixture = Setup::new([calls(), ScriptedCall::answer("Paid.")])
        .tool(&pay)
        .backends(RuntimeBackends::on_journal(Arc::clone(&journal) as _))
        .build()
        .await;
    let approve = async || {
        let decided = fixture
            .runtime
            .decide_tool_call(fixture.session, "pay", true);
        soon(decided).await?.wait().await
    };
    let turn = fixture.run("Pay").await;
    assert_eq!(turn.stop_reason, StopReason::WaitingForApproval);
    assert!(approve().await.unwrap().success);
    assert_eq!(*got.lock().unwrap(), [json!({"pin": 4711, "to": "Ada"})]);

    fixture
        .model
        .rewrite([calls(), ScriptedCall::answer("Sorry.")]);
    fixture.run("Pay again").await;
    journal.fail_after(0);
    approve().await.unwrap_err();
    let turn = approve().await.unwrap();
    assert_eq!((turn.response.as_str(), turn.success), ("Sorry.", true));
    assert_eq!(got.lock().unwrap().len(), 1);
    let records = records(&fixture).await;
    assert!(!records.contains("4711"), "{records}");
    assert!(
        records.contains("call the tool again with the secret itself"),
        "{records}"
    );
    fixture.assert_sound().await;
}

#[tokio::test]
async fn r71_a_key_that_a_provider_repeats_is_in_no_error_event_or_log() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let broken = tool("broken", |_, _| async {
        ToolExecutionResult::internal_error_msg(format!("{KEY} was refused"))
    });
    let refusal = ProviderError::new(ErrorKind::Auth, format!("incorrect key {KEY}"));
    let setup = Setup::new([
        ScriptedCall::tools(vec![call("b", "broken", json!({}))]),
        ScriptedCall::refused(AgentLoopError::provider(refusal.clone())),
        ScriptedCall::refused(AgentLoopError::provider(refusal)),
    ])
    .tool(&broken)
    .session(|session| session.with_capability("btw"));
    let model = setup.model.clone();
    let clock = setup.clock.clone();
    let keyed = ModelWithProvider {
        api_key: Some(KEY.to_owned()),
        ..scripted_model()
    };
    let runtime = setup.builder().default_model(keyed).build().await.unwrap();
    let session = runtime.default_session_id().unwrap();
    let fixture = Fixture {
        runtime,
        session,
        model,
        clock,
    };

    let turn = fixture.run(&format!("Is {KEY} my key?")).await;
    let error = turn.error.unwrap();
    assert!(error.contains("incorrect key [secret:"), "{error}");
    let request = windlass_core::command::ExecuteCommandRequest {
        name: "btw".to_owned(),
        arguments: Some("well?".to_owned()),
        controls: None,
    };
    let answer = soon(fixture.runtime.execute_command(session, request)).await;
    let answer = format!("{answer:?}");
    assert!(answer.contains("incorrect key [secret:"), "{answer}");
    let log = log.0.lock().unwrap().clone();
    assert!(log.contains("was refused"), "{log}");
    for text in [error, answer, log, records(&fixture).await] {
        assert!(!shows(&text, KEY), "{text}");
    }
}

/// Collects the log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut log = self.0.lock().unwrap();
        event.record(
            &mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                let _ = writeln!(log, "{field}={value:?}");
            },
        );
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn operator_secret_is_masked_in_external_results() {
    use windlass_core::named_secrets::{NamedSecret, NamedSecrets};
    let secret = NamedSecret {
        name: "TOKEN".to_owned(),
        value: SECRET.to_owned(),
        in_commands: true,
        header: None,
        agents: Vec::new(),
    };
    let secrets = NamedSecrets::new(vec![secret]).unwrap();
    let client = tool("client", |_, _| async {
        unreachable!("the client runs it")
    })
    .policy(ToolPolicy::ClientSide);
    let asks = tool("asks", |_, _| async {
        ToolExecutionResult::UserInputRequired {
            request: json!({ "questions": [{ "id": "q", "question": SECRET }] }),
        }
    });
    let calls = [
        ScriptedCall::tools(vec![call("c", "client", json!({}))]),
        ScriptedCall::tools(vec![call("a", "asks", json!({}))]),
        ScriptedCall::answer("done"),
    ];
    let setup = Setup::new(calls).tool(&client).tool(&asks);
    let fixture = setup
        .settings(|settings| settings.secrets = secrets)
        .build()
        .await;
    fixture.run("go").await;
    let results = vec![windlass_core::tools::ToolResult::success("c", SECRET)];
    let answered = fixture
        .runtime
        .submit_tool_results(fixture.session, results);
    soon(soon(answered).await.unwrap().wait()).await.unwrap();
    let request = fixture
        .events()
        .await
        .iter()
        .find_map(|event| match &event.data {
            EventData::UserInputRequired(data) => Some(data.request_id.clone()),
            _ => None,
        });
    let request = request.unwrap();
    let answer = json!({ "answers": [{ "id": "q", "value": SECRET }] });
    let answered = fixture
        .runtime
        .answer_user_input(fixture.session, &request, answer);
    soon(soon(answered).await.unwrap().wait()).await.unwrap();
    let records = records(&fixture).await;
    assert!(records.contains("[secret:TOKEN]"), "{records}");
    assert!(!shows(&records, SECRET), "{records}");
}

fn reasoning(text: &str) -> LlmStreamEvent {
    LlmStreamEvent::ReasonItem {
        id: "r".to_owned(),
        payload: json!({"type": "thinking", "thinking": text, "signature": "signed"}),
    }
}

#[tokio::test]
async fn reasoning_that_contains_a_secret_is_neither_stored_nor_sent_back() {
    let fixture = with_storage(Setup::new([
        set_secret(),
        ScriptedCall::new()
            .say(reasoning("first, something harmless"))
            .say(reasoning(&format!("the password is {SECRET}")))
            .text("one")
            .done(),
        ScriptedCall::new()
            .say(reasoning("only harmless"))
            .text("two")
            .done(),
    ]))
    .build()
    .await;
    for _ in 0..3 {
        fixture.run("go").await;
    }
    let records = records(&fixture).await;
    assert!(!shows(&records, SECRET), "{records}");
    let request = fixture.model.requests().pop().unwrap();
    let items = |text: &str| {
        let mut messages = request.history.iter();
        let message = messages.find(|message| message.text() == Some(text));
        message.unwrap().reasoning_items.len()
    };
    // The provider would refuse a changed block, and a sequence with a gap.
    assert_eq!((items("one"), items("two")), (0, 1));
}

#[tokio::test]
async fn a_secret_in_any_part_of_an_imported_message_is_masked() {
    let storage = InMemorySessionStorageStore::new();
    let fixture = Setup::new([])
        .backends(RuntimeBackends::in_memory().with_storage_store(Arc::new(storage.clone())))
        .build()
        .await;
    let stored = storage.set_secret(fixture.session, "db", SECRET);
    stored.await.unwrap();
    let mut message = Message::assistant("imported");
    message.reasoning_items = vec![json!({"reasoning_content": SECRET})];
    let messages = fixture.runtime.message_store();
    let imported = messages.store_message(fixture.session, message);
    imported.await.unwrap();
    let records = records(&fixture).await;
    assert!(!shows(&records, SECRET), "{records}");
}
