//! Sending inputs, approving and answering.

use serde_json::{Value, json};
use windlass_core::error::AgentLoopError;
use windlass_core::llmsim_driver::LlmSimConfig;

use super::{ConversationBuilder, calls, results, says, scripted};
use crate::conversation::{ConversationError, Need, client_tool, tool_fn};
use crate::{Conversation, StopReason};

#[tokio::test]
async fn model_receives_instructions_and_tools() {
    let (builder, requests) = scripted(LlmSimConfig::fixed("Hello!"));
    let tool = tool_fn("wave", "Waves", json!({"type": "object"}), |_, _| async {
        Ok(())
    });
    let mut chat = builder
        .instructions("Be kind.")
        .tool(tool)
        .start()
        .await
        .unwrap();
    assert_eq!(chat.say("Hi").await.unwrap().to_string(), "Hello!");
    let requests = requests.lock().unwrap();
    assert_eq!(&*requests[0].system_prompt, "Be kind.");
    let names: Vec<_> = requests[0]
        .config
        .tools
        .iter()
        .map(|tool| tool.name())
        .collect();
    assert_eq!(names, ["wave"]);
}

#[tokio::test]
async fn closure_tool_receives_its_session() {
    let script = vec![calls("who", json!({})), says("done")];
    let (builder, _) = scripted(LlmSimConfig::scripted(script));
    let tool = tool_fn("who", "", json!({"type": "object"}), |_, ctx| async move {
        Ok(ctx.session_id.to_string())
    });
    let mut chat = builder.tool(tool).start().await.unwrap();
    chat.say("Who?").await.unwrap();
    assert_eq!(results(&chat).await, [json!(chat.session_id().to_string())]);
}

#[tokio::test]
async fn failed_turn_is_an_error_with_the_turn_result() {
    let (builder, _) = scripted(LlmSimConfig::error("out of order"));
    let mut chat = builder.start().await.unwrap();
    let failed = chat.say("Hi").await.unwrap_err();
    let ConversationError::Stopped(turn) = &failed else {
        panic!("{failed:?}");
    };
    assert_eq!(turn.stop_reason, StopReason::Failed);
    assert!(failed.to_string().contains("out of order"), "{failed}");
}

#[tokio::test]
async fn invalid_parts_are_errors_at_the_start() {
    let started = Conversation::builder().start().await;
    let error = started.unwrap_err();
    assert!(
        matches!(
            &error,
            ConversationError::Runtime(AgentLoopError::Configuration(_))
        ),
        "{error}"
    );
    let (builder, _) = scripted(LlmSimConfig::default());
    let error = builder
        .capability("no_such_thing")
        .start()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("`no_such_thing`"), "{error}");
}

#[tokio::test]
async fn call_is_pending_until_it_is_approved_or_denied() {
    let script = vec![calls("pay", json!({"to": "Ada"})), says("done")];
    for approve in [true, false] {
        let (builder, _) = scripted(LlmSimConfig::scripted(script.clone()));
        let pay = tool_fn("pay", "", json!({"type": "object"}), |_, _| async {
            Ok("paid")
        });
        let mut chat = builder.tool(pay.requires_approval()).start().await.unwrap();
        let waiting = chat.say("Pay").await.unwrap();
        let [call] = waiting.pending.as_slice() else {
            panic!("{waiting:?}");
        };
        assert_eq!((call.name.as_str(), call.need), ("pay", Need::Approval));
        assert_eq!(call.arguments, json!({"to": "Ada"}));
        let reply = if approve {
            chat.approve(call).await
        } else {
            chat.refuse(call).await
        };
        assert_eq!(reply.unwrap().text, "done");
        assert_eq!(results(&chat).await[0] == json!("paid"), approve);
        // The same decision again gets the same reply; a different one is too late.
        let (again, other) = if approve {
            (chat.approve(call).await, chat.refuse(call).await)
        } else {
            (chat.refuse(call).await, chat.approve(call).await)
        };
        assert_eq!(again.unwrap().text, "done");
        let late = other.unwrap_err();
        assert!(matches!(late, ConversationError::Runtime(_)), "{late}");
    }
}

#[tokio::test]
async fn client_side_call_is_pending_until_it_is_answered() {
    let script = vec![
        calls("ask", json!({})),
        calls("ask", json!({})),
        says("done"),
    ];
    let (builder, _) = scripted(LlmSimConfig::scripted(script));
    let tool = client_tool("ask", "Asks", json!({"type": "object"}));
    let mut chat = builder.client_tool(tool).start().await.unwrap();
    let waiting = chat.say("Ask").await.unwrap();
    assert_eq!(waiting.pending[0].need, Need::Result);
    let waiting = chat.answer(&waiting.pending[0], "blue").await.unwrap();
    let reply = chat
        .answer_error(&waiting.pending[0], "the user is away")
        .await
        .unwrap();
    assert_eq!((reply.text.as_str(), reply.pending.len()), ("done", 0));
    assert_eq!(
        results(&chat).await,
        [json!("blue"), json!("the user is away")]
    );
}

#[tokio::test]
async fn initial_files_can_be_read() {
    let (builder, _) = scripted(LlmSimConfig::default());
    let chat = builder.file("/a.txt", "A").start().await.unwrap();
    assert_eq!(chat.read_file("a.txt").await.unwrap().as_deref(), Some("A"));
    assert_eq!(chat.read_file("/b.txt").await.unwrap(), None);
    let same = Conversation::on(chat.runtime(), chat.session_id());
    assert_eq!(same.messages().await.unwrap().len(), 0);
}

#[tokio::test]
async fn uncallable_tool_is_refused_by_name_at_the_start() {
    let tool = |name: &str, schema: Value| tool_fn(name, "Does it", schema, |_, _| async { Ok(1) });
    let object = || json!({ "type": "object" });
    for (tools, word) in [
        (vec![tool("two words", object())], "two words"),
        (vec![tool("", object())], "name of a tool"),
        (
            vec![tool("pay", object()), tool("pay", object())],
            "two tools `pay`",
        ),
        (vec![tool("pay", json!("an amount"))], "describes no object"),
        (
            vec![tool("pay", json!({ "type": "string" }))],
            "describes no object",
        ),
    ] {
        let builder = Conversation::builder().simulator(LlmSimConfig::fixed("Hello!"));
        let builder = tools.into_iter().fold(builder, ConversationBuilder::tool);
        let refused = builder.start().await.unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    }
}
