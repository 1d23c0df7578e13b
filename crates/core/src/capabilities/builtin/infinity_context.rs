//! Search in the whole conversation, including messages that the model no longer sees.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::{SessionTool, ToolFailure, boxed, object, offered, reads};
use crate::bounds::prefix;
use crate::capabilities::Capability;
use crate::message::{ContentPart, Message, MessageRole};
use crate::message_filter::{MessageFilter, MessageQuery};
use crate::message_retriever::MessageRetriever;
use crate::tools::{Tool, ToolHints};
use crate::traits::ToolContext;

const NAME: &str = "query_history";
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 50;
/// Limit per message, in bytes, so that a full page fits into a tool result.
const MAX_TEXT_BYTES: usize = 1000;

/// Lets the agent search its own conversation.
#[derive(Debug, Clone, Copy, Default)]
pub struct InfinityContextCapability;

impl Capability for InfinityContextCapability {
    constants!(
        "infinity_context",
        "Infinity Context",
        "Searches the whole conversation.",
        "Memory"
    );
    fn system_prompt_addition(&self) -> Option<&str> {
        Some(
            "You may not see the whole conversation. Before you say that you do not know what was said earlier, look it up with query_history.",
        )
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(QueryHistory)]
    }
}

struct QueryHistory;

#[derive(Deserialize)]
struct Args {
    search: Option<String>,
    role: Option<MessageRole>,
    limit: Option<usize>,
    offset: Option<usize>,
}

#[async_trait]
impl SessionTool for QueryHistory {
    type Args = Args;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str =
        "Search the messages of this conversation, oldest first. Continue with `next_offset`.";

    fn schema(&self) -> Value {
        object(
            json!({
                "search": { "type": "string", "description": "Text that the message contains, case-insensitively" },
                "role": { "type": "string", "enum": ["user", "agent", "tool_result", "system"] },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_LIMIT },
                "offset": { "type": "integer", "minimum": 0, "description": "How many matching messages to skip" }
            }),
            &[],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let messages = offered(&ctx.message_retriever, "message history")?;
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let offset = args.offset.unwrap_or(0);
        let mut query = MessageQuery::new(ctx.session_id)
            .with_filter(without_searches(messages.as_ref(), ctx).await?)
            .with_offset(offset)
            .with_limit(limit + 1);
        if let Some(role) = args.role {
            let is_role = move |message: &Message| message.role == role;
            query = query.with_filter(MessageFilter::Custom(Arc::new(is_role)));
        }
        if let Some(text) = args.search.filter(|text| !text.trim().is_empty()) {
            query = query.with_filter(MessageFilter::Search(text.trim().to_owned()));
        }
        let found = messages.load_filtered(query).await?;
        let shown: Vec<_> = found.iter().take(limit).map(entry).collect();
        let mut result = json!({ "count": shown.len(), "messages": shown });
        if found.len() > limit {
            result["next_offset"] = json!(offset.saturating_add(limit));
        }
        Ok(result)
    }
}

/// Excludes searches of the history and their results, so that a search does not find itself.
async fn without_searches(
    messages: &dyn MessageRetriever,
    ctx: &ToolContext,
) -> Result<MessageFilter, ToolFailure> {
    let searches =
        MessageQuery::new(ctx.session_id).with_filter(MessageFilter::ToolName(NAME.to_owned()));
    let calls: HashSet<String> = messages
        .load_filtered(searches)
        .await?
        .iter()
        .flat_map(Message::tool_calls)
        .filter(|call| call.name == NAME)
        .map(|call| call.id.clone())
        .collect();
    let is_wanted = move |message: &Message| {
        let is_found = message.tool_call_id().is_some_and(|id| calls.contains(id));
        let is_search = message.has_tool_calls()
            && message.text().is_none()
            && message.tool_calls().iter().all(|call| call.name == NAME);
        !is_found && !is_search && !message.is_error_report()
    };
    Ok(MessageFilter::Custom(Arc::new(is_wanted)))
}

fn entry(message: &Message) -> Value {
    let text = message.content.iter().filter_map(part_text);
    let text = text.collect::<Vec<_>>().join("\n");
    let shown = prefix(&text, MAX_TEXT_BYTES);
    json!({
        "role": message.role,
        "time": message.created_at,
        "text": shown,
        "is_cut": shown.len() < text.len()
    })
}

fn part_text(part: &ContentPart) -> Option<String> {
    match part {
        ContentPart::Text(text) => Some(text.text.clone()),
        ContentPart::ToolCall(call) => Some(format!("[calls {} {}]", call.name, call.arguments)),
        ContentPart::ToolResult(result) => match (&result.error, &result.result) {
            (Some(error), _) => Some(format!("[error: {error}]")),
            (None, value) => value.as_ref().map(Value::to_string),
        },
        ContentPart::Image(_) | ContentPart::ImageFile(_) => Some("[image]".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, odd_arguments};
    use super::*;
    use crate::in_memory::InMemoryMessageRetriever;
    use crate::tools::ToolCall;
    use crate::typed_id::SessionId;

    fn calls(name: &str) -> Vec<ToolCall> {
        let (id, name) = (format!("id-{name}"), name.to_owned());
        let arguments = json!({"search": "boat"});
        vec![ToolCall {
            id,
            name,
            arguments,
        }]
    }

    async fn query(args: Value) -> Result<Value, String> {
        let (session_id, messages) = (SessionId::new(), InMemoryMessageRetriever::new());
        let found = Some(json!({"messages": ["a red boat"]}));
        let conversation = vec![
            Message::user("I have a red boat"),
            Message::assistant("A Boat!"),
            Message::user("And a dog"),
            Message::assistant_with_tools("", calls("weather")),
            Message::tool_result("id-weather", None, Some("no boats".into())),
            Message::assistant_with_tools("", calls(NAME)),
            Message::tool_result(format!("id-{NAME}"), found, None),
        ];
        messages.seed(session_id, conversation).await;
        let ctx = ToolContext::new(session_id).with_message_retriever(Arc::new(messages));
        call(&InfinityContextCapability, NAME, args, &ctx).await
    }

    fn texts(found: &Value) -> Vec<&str> {
        let messages = found["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|m| m["text"].as_str().unwrap())
            .collect()
    }

    #[tokio::test]
    async fn r22_a_search_finds_text_in_any_case_and_never_itself() {
        let found = query(json!({"search": "BOAT"})).await.unwrap();
        let call = r#"[calls weather {"search":"boat"}]"#;
        assert_eq!(
            texts(&found),
            ["I have a red boat", "A Boat!", call, "[error: no boats]"]
        );
        let found = query(json!({"search": "boat", "role": "user"}))
            .await
            .unwrap();
        assert_eq!(texts(&found), ["I have a red boat"]);
        assert_eq!(query(json!({"search": "cat"})).await.unwrap()["count"], 0);
    }

    #[tokio::test]
    async fn pages_follow_each_other() {
        let first = query(json!({"limit": 2})).await.unwrap();
        assert_eq!(texts(&first), ["I have a red boat", "A Boat!"]);
        let next = &first["next_offset"];
        let second = query(json!({"limit": 3, "offset": next})).await.unwrap();
        assert_eq!(second["count"], 3);
        assert_eq!(second.get("next_offset"), None);
    }

    #[tokio::test]
    async fn odd_arguments_and_a_missing_history_are_errors() {
        assert!(
            query(json!({"role": "ghost"}))
                .await
                .unwrap_err()
                .contains("ghost")
        );
        let ctx = ToolContext::new(SessionId::new());
        let error = call(&InfinityContextCapability, NAME, json!({}), &ctx).await;
        assert_eq!(error.unwrap_err(), "this host offers no message history");
        odd_arguments(&InfinityContextCapability).await;
    }
}
