//! The tool `spawn_agent`: its arguments and its result.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::bounds::{one_line, prefix, suffix};
use windlass_core::derived_id::child_of_step;
use windlass_core::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints};
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;

use super::child::{SpawnCall, SpawnRefusal};
use super::end::ChildEnd;
use super::{SPAWN_AGENT, SubagentsState};

const MAX_PROMPT_BYTES: usize = 64 * 1024;
const MAX_NAME_CHARS: usize = 80;
const MAX_WORD_BYTES: usize = 200;
const MAX_TOOLS: usize = 256;
/// The timeout is deliberately long: budgets and the cancellation of the parent limit a subagent.
const TIMEOUT_MS: u64 = 30 * 24 * 3600 * 1000;

/// The tool's arguments: the task of the agent, and its model, tools and backend.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnArguments {
    pub(super) prompt: String,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) backend: Option<String>,
    #[serde(default)]
    pub(super) tools: Option<Vec<String>>,
}

impl SpawnArguments {
    fn read(arguments: Value) -> Result<Self, String> {
        let mut task: Self =
            serde_json::from_value(arguments).map_err(|error| error.to_string())?;
        if task.prompt.trim().is_empty() {
            return Err("`prompt` is empty: say what the agent is to do".to_owned());
        }
        if task.prompt.len() > MAX_PROMPT_BYTES {
            return Err(format!(
                "`prompt` has more than {MAX_PROMPT_BYTES} bytes; put the long part into a file that the agent can read"
            ));
        }
        let is_word = |word: &String| {
            // The word can become a program argument, and a leading dash would make it an option.
            let is_plain = !word.contains(char::is_control) && !word.starts_with('-');
            !word.is_empty() && word.len() <= MAX_WORD_BYTES && is_plain
        };
        let mut words = task.model.iter().chain(&task.backend);
        let mut tools = task.tools.iter().flatten();
        if !words.all(is_word) || !tools.all(is_word) {
            return Err("names of models, backends and tools are short words".to_owned());
        }
        if task.tools.iter().flatten().count() > MAX_TOOLS {
            return Err(format!("`tools` has more than {MAX_TOOLS} names"));
        }
        let name = task.name.as_deref().map(one_line);
        let name = name.map(|name| name.chars().take(MAX_NAME_CHARS).collect::<String>());
        task.name = name.filter(|name| !name.trim().is_empty());
        Ok(task)
    }
}

/// Starts an agent and waits for its answer.
pub(super) struct SpawnAgent {
    pub(super) shared: Arc<SubagentsState>,
}

#[async_trait]
impl Tool for SpawnAgent {
    fn name(&self) -> &str {
        SPAWN_AGENT
    }
    fn description(&self) -> &str {
        "Start an agent that does a part of the work on its own, and wait for its answer. It knows nothing of this conversation: the \
         prompt must say everything. Several calls in one message run at once. It works in the same directory, with your tools or \
         fewer, and what it uses counts as yours."
    }
    fn parameters_schema(&self) -> Value {
        let mut properties = json!({
            "prompt": { "type": "string", "description": "What to do, and what to answer. All that the agent needs to know." },
            "name": { "type": "string", "description": "A few words, for people who watch." },
            "model": { "type": "string", "description": "Another model than yours." },
            "tools": { "type": "array", "items": { "type": "string" }, "description": "The only tools that it gets, by name; all of yours if left out." },
        });
        let backends = &self.shared.settings.backends;
        if !backends.is_empty() {
            properties["backend"] = json!({
                "type": "string", "enum": backends,
                "description": "An external agent that does the work, with its own tools.",
            });
        }
        json!({
            "type": "object", "properties": properties, "required": ["prompt"], "additionalProperties": false,
        })
    }
    fn requires_context(&self) -> bool {
        true
    }
    fn hints(&self) -> ToolHints {
        // The call is idempotent: the same call finds the same subagent.
        ToolHints::default()
            .with_side_effect_class(SideEffectClass::Idempotent)
            .with_timeout_ms(TIMEOUT_MS)
    }
    async fn execute(&self, _arguments: Value) -> ToolExecutionResult {
        ToolExecutionResult::tool_error("an agent can be started by a turn only")
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let inner = self.shared.runtime.runtime().ok();
        let step = context.event_context.as_ref();
        let step = step.and_then(|step| step.turn_id.zip(step.exec_id));
        let (Some(inner), Some((turn_id, exec_id))) = (inner, step) else {
            return self.execute(arguments).await;
        };
        let task = match SpawnArguments::read(arguments) {
            Ok(task) => task,
            Err(text) => return ToolExecutionResult::tool_error(text),
        };
        let settings = &self.shared.settings;
        let spawning = SpawnCall {
            inner: &inner,
            settings,
            context,
            turn_id,
            exec_id,
            task,
        };
        let ended = Box::pin(spawning.run()).await;
        // The next process repeats the call, so the end of this process is not a result.
        if inner.is_stopping() && ended.is_err() {
            std::future::pending::<()>().await;
        }
        match ended {
            Ok((end, answer)) => {
                result(child_of_step(exec_id), &end, &answer, settings.answer_bytes)
            }
            Err(SpawnRefusal(text)) => ToolExecutionResult::tool_error(text),
        }
    }
}

fn result(child: SessionId, end: &ChildEnd, answer: &str, max_bytes: usize) -> ToolExecutionResult {
    let answer = head_and_tail(answer, max_bytes);
    let (status, why) = match end {
        ChildEnd::Completed => {
            return ToolExecutionResult::success(
                json!({ "session_id": child, "status": "completed", "answer": answer }),
            );
        }
        ChildEnd::Failed { error, .. } => ("failed", Some(error)),
        ChildEnd::Cancelled { reason } => ("was stopped", reason.as_ref()),
    };
    let mut text = format!("the agent {child} {status}");
    if let Some(why) = why {
        text.push_str(": ");
        text.push_str(&head_and_tail(why, 1024));
    }
    if !answer.is_empty() {
        text.push_str("\nThe last that it said: ");
        text.push_str(&answer);
    }
    ToolExecutionResult::tool_error(text)
}

/// Returns the beginning and the end of a text that is too long, with the number of omitted bytes between them.
fn head_and_tail(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let head = prefix(text, max_bytes - max_bytes / 2);
    let tail = suffix(text, max_bytes / 2);
    let left_out = text.len() - head.len() - tail.len();
    format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answer_is_shortened_in_the_middle() {
        assert_eq!(head_and_tail("short", 5), "short");
        assert_eq!(
            head_and_tail("abcdefghij", 4),
            "ab\n[… 6 bytes left out …]\nij"
        );
        for max_bytes in 0..30 {
            let cut = head_and_tail(&"é…𝕏".repeat(9), max_bytes);
            assert!(cut.len() <= max_bytes + 40, "{cut}");
        }
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for hostile in [
            json!({}),
            json!({"prompt": " "}),
            json!({"prompt": "x".repeat(MAX_PROMPT_BYTES + 1)}),
            json!({"prompt": "x", "model": "m\n"}),
            json!({"prompt": "x", "model": ""}),
            json!({"prompt": "x", "model": "--dangerously"}),
            json!({"prompt": "x", "backend": "b".repeat(999)}),
            json!({"prompt": "x", "tools": vec!["t"; MAX_TOOLS + 1]}),
            json!({"prompt": "x", "tools": "shell"}),
            json!({"prompt": "x", "budget": 1}),
            json!({"prompt": "x", "session_id": "session_1"}),
        ] {
            assert!(SpawnArguments::read(hostile.clone()).is_err(), "{hostile}");
        }
        let name = "\u{202e}a\nb".repeat(100);
        let task = SpawnArguments::read(json!({"prompt": "x", "name": name})).unwrap();
        let name = task.name.unwrap();
        assert!(name.chars().count() <= MAX_NAME_CHARS, "{name}");
        assert!(!name.contains('\n'), "{name}");
    }
}
