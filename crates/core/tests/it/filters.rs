//! Which messages a query finds.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use windlass_core::in_memory::InMemoryMessageRetriever;
use windlass_core::message::{Message, MessageRole};
use windlass_core::message_filter::{
    InjectionPosition, MessageFilter, MessageInjection, MessageQuery,
};
use windlass_core::message_retriever::MessageRetriever;
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::{EventId, MessageId, SessionId};

const SESSION: SessionId = SessionId::from_seed(1);

/// A conversation whose messages have the ids and the seconds 0 to 4.
fn conversation() -> Vec<Message> {
    let call = ToolCall {
        id: "c0".to_owned(),
        name: "read_file".to_owned(),
        arguments: json!({ "path": "Notes.txt" }),
    };
    let said = [
        Message::system("Be kind"),
        Message::user("Where is GRÜN?"),
        Message::assistant_with_tools("", vec![call]),
        Message::tool_result("c0", Some(json!({ "found": "Meadow" })), None),
        Message::assistant("In the meadow"),
    ];
    let numbered = said.into_iter().enumerate().map(|(n, message)| Message {
        id: MessageId::from_seed(n as u128),
        created_at: second(n as u64),
        ..message
    });
    numbered.collect()
}

fn second(n: u64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::from_secs(n)
}

async fn found(query: MessageQuery) -> Vec<u128> {
    let store = InMemoryMessageRetriever::new();
    store.seed(SESSION, conversation()).await;
    let found = store.load_filtered(query).await.unwrap();
    let ids = found.iter().map(|message| message.id.uuid().as_u128());
    ids.collect()
}

async fn check(filter: MessageFilter, expected: &[u128]) {
    let name = format!("{filter:?}");
    let query = MessageQuery::new(SESSION).with_filter(filter);
    assert_eq!(found(query).await, expected, "{name}");
}

#[tokio::test]
async fn r34_every_message_filter_is_honoured() {
    use MessageFilter::{Custom, EventTypes, ExcludeIds, IncludeIds, Search, TimeRange, ToolName};
    let range = |from: Option<u64>, to: Option<u64>| TimeRange {
        from: from.map(second),
        to: to.map(second),
    };
    check(range(Some(1), Some(3)), &[1, 2, 3]).await;
    check(range(None, Some(1)), &[0, 1]).await;
    check(range(Some(4), None), &[4]).await;
    check(range(None, None), &[0, 1, 2, 3, 4]).await;

    let types = |names: &[&str]| EventTypes(names.iter().map(|name| (*name).to_owned()).collect());
    check(types(&["input.message"]), &[0, 1]).await;
    check(types(&["output.message.completed"]), &[2, 4]).await;
    check(types(&["tool.completed", "input.message"]), &[0, 1, 3]).await;
    check(types(&[]), &[]).await;

    check(ToolName("read_file".to_owned()), &[2]).await;
    check(ToolName("read".to_owned()), &[]).await;

    check(Search("meadow".to_owned()), &[3, 4]).await;
    check(Search("grün".to_owned()), &[1]).await;
    check(Search("NOTES".to_owned()), &[2]).await;
    check(Search("nowhere".to_owned()), &[]).await;

    let ids = |ids: &[u128]| ids.iter().copied().map(EventId::from_seed).collect();
    check(ExcludeIds(ids(&[0, 4, 99])), &[1, 2, 3]).await;
    check(IncludeIds(ids(&[4, 1, 99])), &[1, 4]).await;
    check(IncludeIds(Vec::new()), &[]).await;

    let from_agent = |message: &Message| message.role == MessageRole::Agent;
    check(Custom(Arc::new(from_agent)), &[2, 4]).await;
}

#[tokio::test]
async fn message_must_match_every_filter() {
    let query = MessageQuery::new(SESSION)
        .with_filter(MessageFilter::Search("meadow".to_owned()))
        .with_filter(MessageFilter::EventTypes(vec![
            "output.message.completed".to_owned(),
        ]));
    assert_eq!(found(query).await, [4]);
}

#[tokio::test]
async fn offset_and_limit_apply_to_matches() {
    let agent = MessageFilter::EventTypes(vec!["input.message".to_owned()]);
    let query = MessageQuery::new(SESSION)
        .with_filter(agent)
        .with_offset(1)
        .with_limit(5);
    assert_eq!(found(query).await, [1]);
    assert_eq!(
        found(MessageQuery::new(SESSION).with_offset(1).with_limit(2)).await,
        [1, 2]
    );
}

#[tokio::test]
async fn another_session_has_no_messages() {
    assert!(
        found(MessageQuery::new(SessionId::from_seed(2)))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn injected_messages_are_inserted_at_their_positions() {
    let inject = |n: u128, position| MessageInjection {
        position,
        message: Message {
            id: MessageId::from_seed(n),
            ..Message::system("injected")
        },
    };
    let query = MessageQuery::new(SESSION)
        .with_limit(2)
        .with_injection(inject(10, InjectionPosition::Start))
        .with_injection(inject(11, InjectionPosition::Start))
        .with_injection(inject(12, InjectionPosition::End))
        .with_injection(inject(
            13,
            InjectionPosition::Before(MessageId::from_seed(1)),
        ))
        .with_injection(inject(
            14,
            InjectionPosition::Before(MessageId::from_seed(99)),
        ));
    assert_eq!(found(query).await, [10, 11, 0, 13, 1, 12, 14]);
}
