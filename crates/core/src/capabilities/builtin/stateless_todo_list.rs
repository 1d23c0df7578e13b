//! A to-do list that only the conversation stores.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::session_tool::{SessionTool, ToolFailure, boxed, fail, object, reads};
use crate::capabilities::Capability;
use crate::tools::{Tool, ToolHints};
use crate::traits::ToolContext;

const MAX_TODOS: usize = 200;

/// Lets the agent plan: each call contains the whole list, and nothing else stores it.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatelessTodoListCapability;

impl Capability for StatelessTodoListCapability {
    constants!(
        "stateless_todo_list",
        "Todo List",
        "Maintains a to-do list in the conversation.",
        "Planning"
    );
    fn system_prompt_addition(&self) -> Option<&str> {
        Some(
            "For work of three steps or more, keep a plan with write_todos: send the whole list each time, have one item in progress at most, and mark an item completed as soon as it is.",
        )
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(WriteTodos)]
    }
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Todo {
    content: String,
    status: TodoStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active_form: Option<String>,
}

#[derive(Deserialize)]
struct Args {
    todos: Vec<Todo>,
}

struct WriteTodos;

#[async_trait]
impl SessionTool for WriteTodos {
    type Args = Args;
    const NAME: &'static str = "write_todos";
    const DESCRIPTION: &'static str =
        "Write the complete to-do list; it replaces the previous one.";

    fn schema(&self) -> Value {
        let todo = object(
            json!({
                "content": { "type": "string", "minLength": 1, "description": "What is to be done" },
                "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                "activeForm": { "type": "string", "description": "What to show while it is being done" }
            }),
            &["content", "status"],
        );
        object(
            json!({ "todos": { "type": "array", "maxItems": MAX_TODOS, "items": todo } }),
            &["todos"],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: Args, _ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let todos = args.todos;
        if todos.len() > MAX_TODOS {
            return fail(format!("a list may have {MAX_TODOS} items at most"));
        }
        if let Some(index) = todos.iter().position(|todo| todo.content.trim().is_empty()) {
            return fail(format!("item {} has no content", index + 1));
        }
        let count = |status| todos.iter().filter(|todo| todo.status == status).count();
        let active = count(TodoStatus::InProgress);
        if active > 1 {
            return fail(format!("{active} items are in_progress; have one at most"));
        }
        Ok(json!({
            "total": todos.len(),
            "pending": count(TodoStatus::Pending),
            "in_progress": active,
            "completed": count(TodoStatus::Completed),
            "todos": todos
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, odd_arguments};
    use super::*;
    use crate::typed_id::SessionId;

    async fn write(todos: Value) -> Result<Value, String> {
        let ctx = ToolContext::new(SessionId::new());
        let args = json!({"todos": todos});
        call(&StatelessTodoListCapability, "write_todos", args, &ctx).await
    }

    #[tokio::test]
    async fn list_is_counted_and_returned() {
        let todos = json!([
            {"content": "Read", "status": "completed"},
            {"content": "Write", "status": "in_progress", "activeForm": "Writing"},
            {"content": "Check", "status": "pending"}
        ]);
        let written = write(todos.clone()).await.unwrap();
        assert_eq!(written["todos"], todos);
        for (name, count) in [
            ("total", 3),
            ("pending", 1),
            ("in_progress", 1),
            ("completed", 1),
        ] {
            assert_eq!(written[name], count);
        }
        assert_eq!(write(json!([])).await.unwrap()["total"], 0);
    }

    #[tokio::test]
    async fn invalid_list_is_refused() {
        for (todos, named) in [
            (
                json!([{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]),
                "2 items are in_progress",
            ),
            (json!([{"content": "a", "status": "doing"}]), "doing"),
            (
                json!([{"content": "a", "status": "pending"}, {"content": " ", "status": "pending"}]),
                "item 2 has no content",
            ),
            (json!([{"status": "pending"}]), "content"),
        ] {
            let error = write(todos).await.unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        odd_arguments(&StatelessTodoListCapability).await;
    }
}
