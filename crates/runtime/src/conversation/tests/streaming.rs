//! Streaming an answer.

use std::time::Duration;

use serde_json::json;
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};

use super::{calls, says, scripted};
use crate::conversation::{AnswerStream, ConversationError, client_tool, tool_fn};
use crate::{Conversation, StopReason};

async fn chat(script: LlmSimConfig) -> Conversation {
    scripted(script).0.start().await.unwrap()
}

async fn read(answer: &mut AnswerStream) -> Vec<String> {
    let mut pieces = Vec::new();
    while let Some(piece) = answer.next().await {
        pieces.push(piece);
    }
    pieces
}

#[tokio::test(start_paused = true)]
async fn slow_reader_gets_the_whole_answer() {
    let text = "one two three four five six seven eight nine ten ".repeat(20);
    let script = LlmSimConfig::fixed(&text).with_piece_delay(Duration::from_millis(20));
    let mut chat = chat(script).await;
    let mut answer = chat.stream("Count").await.unwrap();
    let mut pieces = vec![answer.next().await.unwrap()];
    // This turn and another one have ended before the rest is read.
    assert_eq!(chat.say("Again").await.unwrap().text, text);
    pieces.extend(read(&mut answer).await);
    assert!(pieces.len() > 50, "{} pieces", pieces.len());
    assert_eq!(pieces.concat(), text);
    assert_eq!(answer.finish().await.unwrap().text, text);
}

#[tokio::test]
async fn each_turn_has_its_own_stream() {
    let mut chat = chat(LlmSimConfig::sequence(vec![
        "a".into(),
        "b".into(),
        "c".into(),
    ]))
    .await;
    chat.say("first").await.unwrap();
    let mut second = chat.stream("second").await.unwrap();
    let mut third = chat.stream("third").await.unwrap();
    assert_eq!(read(&mut third).await, ["c"]);
    assert_eq!(read(&mut second).await, ["b"]);
    assert_eq!(second.finish().await.unwrap().text, "b");
    assert_eq!(third.finish().await.unwrap().text, "c");
}

#[tokio::test]
async fn blank_line_separates_the_messages_of_a_turn() {
    let script = vec![
        SimTurn::Mixed {
            text: "Let me look.".into(),
            tool_calls: vec![SimToolCall::new("look", json!({}))],
        },
        calls("look", json!({})),
        says("A cat."),
    ];
    let look = tool_fn("look", "", json!({"type": "object"}), |_, _| async {
        Ok(())
    });
    let (builder, _) = scripted(LlmSimConfig::scripted(script));
    let mut chat = builder.tool(look).start().await.unwrap();
    let mut answer = chat.stream("What?").await.unwrap();
    assert_eq!(read(&mut answer).await.concat(), "Let me look.\n\nA cat.");
    assert_eq!(answer.finish().await.unwrap().text, "A cat.");
}

#[tokio::test]
async fn stream_ends_when_the_turn_parks_and_the_turn_stays_parked() {
    let script = vec![
        SimTurn::Mixed {
            text: "I ask.".into(),
            tool_calls: vec![SimToolCall::new("ask", json!({}))],
        },
        says("Thanks."),
    ];
    let (builder, _) = scripted(LlmSimConfig::scripted(script));
    let tool = client_tool("ask", "", json!({"type": "object"}));
    let mut chat = builder.client_tool(tool).start().await.unwrap();
    let mut answer = chat.stream("Go").await.unwrap();
    assert_eq!(read(&mut answer).await, ["I ask."]);
    let reply = answer.finish().await.unwrap();
    assert_eq!(reply.turn.stop_reason, StopReason::WaitingForToolResults);
    assert_eq!(
        chat.answer(&reply.pending[0], 1).await.unwrap().text,
        "Thanks."
    );
}

#[tokio::test]
async fn failed_turn_ends_the_stream_and_finish_returns_the_error() {
    let mut chat = chat(LlmSimConfig::error("out of order")).await;
    let mut answer = chat.stream("Hi").await.unwrap();
    assert_eq!(read(&mut answer).await, Vec::<String>::new());
    let failed = answer.finish().await.unwrap_err();
    assert!(matches!(failed, ConversationError::Stopped(_)), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn cancel_retains_the_text_so_far() {
    let script =
        LlmSimConfig::fixed("Well, let me think.").with_piece_delay(Duration::from_secs(60));
    let mut chat = chat(script).await;
    let mut answer = chat.stream("Hi").await.unwrap();
    assert_eq!(answer.next().await.as_deref(), Some("Well, "));
    let reply = answer.cancel().await.unwrap();
    assert_eq!(reply.turn.stop_reason, StopReason::Cancelled);
    assert!(reply.text.starts_with("Well, "), "{}", reply.text);
    let mut ended = chat.stream("Again").await.unwrap();
    read(&mut ended).await;
    assert_eq!(
        ended.cancel().await.unwrap().turn.stop_reason,
        StopReason::Completed
    );
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_cancels_the_turn() {
    let script =
        LlmSimConfig::fixed("Well, let me think.").with_piece_delay(Duration::from_secs(60));
    let mut chat = chat(script).await;
    let mut answer = chat.stream("Hi").await.unwrap();
    answer.next().await.unwrap();
    drop(answer);
    let reply = chat.say("And now?").await.unwrap();
    assert_eq!(reply.text, "Well, let me think.");
    let said = chat.messages().await.unwrap();
    assert!(said[1].text().unwrap().len() < reply.text.len(), "{said:?}");
}

#[test]
fn stream_can_be_dropped_outside_of_an_executor() {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let script = LlmSimConfig::fixed("Hello!");
    let answer = executor.block_on(async {
        let mut chat = chat(script).await;
        let answer = chat.stream("Hi").await.unwrap();
        chat.say("Bye").await.unwrap();
        answer
    });
    drop(answer);
}
