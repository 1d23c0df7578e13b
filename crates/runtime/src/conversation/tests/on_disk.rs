//! Conversations that continue in another process: each process opens the directory that the previous one closed.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::tools::{Tool, ToolExecutionResult};
use windlass_store::sqlite::{SecretsKey, SqliteError, SqliteOptions, SqliteStore};

use super::{calls, results, says, scripted};
use crate::conversation::{ConversationError, Need, tool_fn};
use crate::{Conversation, ConversationBuilder, RuntimeBackends};

fn process(data: &Path, script: LlmSimConfig) -> ConversationBuilder {
    scripted(script).0.on_disk(data).named("boat")
}

/// A tool that asks the user.
struct Ask;

#[async_trait]
impl Tool for Ask {
    fn name(&self) -> &str {
        "ask"
    }
    fn description(&self) -> &str {
        "Asks the user"
    }
    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }
    async fn execute(&self, _: Value) -> ToolExecutionResult {
        ToolExecutionResult::UserInputRequired {
            request: json!("Which colour?"),
        }
    }
}

#[tokio::test]
async fn reopened_conversation_has_its_messages_and_the_new_settings() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let first = process(&data, LlmSimConfig::fixed("one"));
    let first = first.instructions("Be kind.").file("/log.md", "Launched.");
    let mut chat = first.start().await.unwrap();
    chat.say("1").await.unwrap();
    let files = &chat.runtime().inner.files;
    let id = chat.session_id();
    files
        .write_file(id, "/log.md", "At sea.", "text")
        .await
        .unwrap();
    let began = chat.runtime().session(id).await.unwrap().created_at;
    chat.close().await;

    let (builder, requests) = scripted(LlmSimConfig::fixed("two"));
    let wave = tool_fn("wave", "", json!({"type": "object"}), |_, _| async {
        Ok(())
    });
    let second = builder.on_disk(&data).named("boat").tool(wave);
    let second = second
        .instructions("Be brief.")
        .file("/log.md", "Launched.");
    let mut chat = second.start().await.unwrap();
    assert_eq!(chat.session_id(), id);
    chat.say("2").await.unwrap();
    let messages = chat.messages().await.unwrap();
    let said: Vec<_> = messages.iter().filter_map(|it| it.text()).collect();
    assert_eq!(said, ["1", "one", "2", "two"]);
    assert_eq!(
        chat.read_file("/log.md").await.unwrap().as_deref(),
        Some("At sea.")
    );
    {
        let requests = requests.lock().unwrap();
        assert_eq!(&*requests[0].system_prompt, "Be brief.");
        assert_eq!(requests[0].config.tools.len(), 1);
    }
    let session = chat.runtime().session(id).await.unwrap();
    assert_eq!(session.created_at, began);
    assert_eq!(session.title.as_deref(), Some("boat"));
    // Resuming it repeatedly does not create further harnesses or agents.
    assert_eq!(chat.runtime().list_harnesses().await.unwrap().len(), 1);
    assert_eq!(chat.runtime().list_agents().await.unwrap().len(), 1);
}

#[tokio::test]
async fn open_turn_is_resumed_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let never = LlmSimConfig::fixed("half an answer").with_piece_delay(Duration::from_secs(3600));
    let chat = process(&data, never).start().await.unwrap();
    let runtime = chat.runtime();
    drop(runtime.submit(chat.session_id(), "go").await.unwrap());
    chat.close().await;

    let next = process(&data, LlmSimConfig::fixed("a whole one"));
    let mut chat = next.start().await.unwrap();
    assert!(chat.pending().await.unwrap().is_empty());
    assert_eq!(chat.resume().await.unwrap().unwrap().text, "a whole one");
    assert_eq!(chat.resume().await.unwrap(), None);
}

#[tokio::test]
async fn approval_and_question_are_answered_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let pay = || {
        tool_fn("pay", "", json!({"type": "object"}), |_, _| async {
            Ok("paid")
        })
        .requires_approval()
    };
    let builder = process(&data, LlmSimConfig::scripted(vec![calls("pay", json!({}))]));
    let mut chat = builder.tool(pay()).tool(Ask).start().await.unwrap();
    assert_eq!(chat.say("Pay").await.unwrap().pending.len(), 1);
    chat.close().await;

    let builder = process(&data, LlmSimConfig::scripted(vec![calls("ask", json!({}))]));
    let mut chat = builder.tool(pay()).tool(Ask).start().await.unwrap();
    let pending = chat.pending().await.unwrap();
    let [call] = pending.as_slice() else {
        panic!("{pending:?}");
    };
    assert_eq!((call.name.as_str(), call.need), ("pay", Need::Approval));
    let asked = chat.approve(call).await.unwrap();
    assert_eq!(asked.pending[0].name, "ask");
    chat.close().await;

    let builder = process(&data, LlmSimConfig::scripted(vec![says("done")]));
    let mut chat = builder.tool(pay()).tool(Ask).start().await.unwrap();
    // Resuming the turn does not change its pending calls.
    let waiting = chat.resume().await.unwrap().unwrap();
    assert_eq!(waiting.pending, chat.pending().await.unwrap());
    assert_eq!(waiting.pending[0].need, Need::Result);
    let reply = chat.answer(&waiting.pending[0], "blue").await.unwrap();
    assert_eq!(reply.text, "done");
    assert_eq!(results(&chat).await, [json!("paid"), json!("blue")]);
}

#[tokio::test]
async fn read_only_program_sees_everything_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut chat = process(&data, LlmSimConfig::fixed("one"))
        .start()
        .await
        .unwrap();
    chat.say("1").await.unwrap();
    let events = chat.runtime().events_for(chat.session_id()).await.unwrap();

    let looking = || Conversation::builder().on_disk_read_only(&data);
    let chats = looking().open().await.unwrap();
    assert_eq!(chats.list().await.unwrap().len(), 1);
    let mut seen = looking().named("boat").start().await.unwrap();
    assert_eq!(seen.messages().await.unwrap().len(), 2);
    assert!(seen.pending().await.unwrap().is_empty());
    assert!(seen.say("2").await.is_err());
    assert!(chats.begin().await.is_err());
    assert!(looking().named("other").start().await.is_err());
    let after = chat.runtime().events_for(chat.session_id()).await.unwrap();
    assert_eq!(after, events);
    chat.say("2").await.unwrap();
}

#[tokio::test]
async fn directory_has_one_writer_until_close() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let open = || process(&data, LlmSimConfig::default());
    let chat = open().start().await.unwrap();
    let refused = open().start().await.unwrap_err();
    assert!(
        matches!(
            &refused,
            ConversationError::Store(SqliteError::Locked { .. })
        ),
        "{refused}"
    );
    chat.close().await;
    open().start().await.unwrap();
}

#[tokio::test]
async fn reopening_an_unchanged_conversation_writes_nothing_and_removal_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(directory.path())).await;
    let store = store.unwrap();
    let open = async |instructions| {
        let (builder, _) = scripted(LlmSimConfig::fixed("Hello!"));
        let builder = builder.backends(RuntimeBackends::on_sqlite(&store));
        builder.instructions(instructions).open().await.unwrap()
    };
    let chats = open("Be kind.").await;
    let mut ada = chats.named("Ada").await.unwrap();
    ada.say("Hi").await.unwrap();
    let before = store.commits();
    chats.named("Ada").await.unwrap();
    open("Be kind.").await.named("Ada").await.unwrap();
    assert_eq!(store.commits(), before);
    let chats = open("Be brief.").await;
    chats.named("Ada").await.unwrap();
    assert!(store.commits() > before, "what is different is written");

    chats.named("Ben").await.unwrap();
    let runtime = chats.runtime();
    runtime.remove_session(ada.session_id()).await.unwrap();
    assert_eq!(runtime.list_harnesses().await.unwrap().len(), 1, "Ben's");
    assert_eq!(runtime.list_agents().await.unwrap().len(), 1);
    let mut ben = chats.named("Ben").await.unwrap();
    assert_eq!(ben.say("Hi").await.unwrap().text, "Hello!");
}

#[tokio::test]
async fn missing_secrets_key_is_a_tool_error_and_the_turn_continues() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let script = || {
        LlmSimConfig::scripted(vec![
            calls(
                "secret_store",
                json!({"operation": "set", "name": "pin", "value": "hunter2"}),
            ),
            calls("secret_store", json!({"operation": "get", "name": "pin"})),
            says("Continuing"),
        ])
    };
    let chat = process(&data, script()).capability("session_storage");
    let mut chat = chat.start().await.unwrap();
    assert_eq!(chat.say("Keep it").await.unwrap().text, "Continuing");
    let outcomes = results(&chat).await;
    let refusal = outcomes[0].as_str().unwrap();
    for words in ["no key for secrets", "with_secrets_key", "on_disk_with"] {
        assert!(refusal.contains(words), "{refusal}");
    }
    assert!(!refusal.contains("hunter2"), "{refusal}");
    assert_eq!(outcomes[1]["found"], false);
    chat.close().await;

    // Values sealed with a key are not readable without it, nor with another key.
    let sealed = directory.path().join("sealed");
    for (key, words) in [
        (Some(1), "stored"),
        (None, "no key for secrets"),
        (Some(2), "sealed with another key"),
    ] {
        let mut options = SqliteOptions::new(&sealed);
        if let Some(key) = key {
            options = options.with_secrets_key(SecretsKey::new([key; 32]));
        }
        let script = match key {
            Some(1) => script(),
            _ => LlmSimConfig::scripted(vec![
                calls("secret_store", json!({"operation": "get", "name": "pin"})),
                says("Continuing"),
            ]),
        };
        let chat = scripted(script).0.on_disk_with(options).named("boat");
        let mut chat = chat.capability("session_storage").start().await.unwrap();
        let before = results(&chat).await.len();
        assert_eq!(chat.say("Go").await.unwrap().text, "Continuing");
        let outcome = results(&chat).await[before].to_string();
        assert!(outcome.contains(words), "{outcome}");
        chat.close().await;
    }
}
