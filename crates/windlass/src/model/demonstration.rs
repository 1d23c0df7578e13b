//! The model that answers if no other is configured. It follows a script without a network, but its effects are real: the tools, the sandbox, the
//! approvals and the records.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use windlass_core::error::Result;
use windlass_core::history::History;
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmRequest, LlmResponseStream,
    LlmStreamEvent,
};
use windlass_core::message::{Message, MessageRole};
use windlass_core::tool_types::ToolCall;

/// The name of the model.
pub(crate) const NAME: &str = "demonstration";

/// Delay per word.
const WORD: Duration = Duration::from_millis(6);
/// Files that describe a directory, in order of preference.
const DESCRIPTIVE_FILES: [&str; 8] = [
    "README.md",
    "README",
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "go.mod",
    "Makefile",
    "AGENTS.md",
];
/// The command that it runs; it changes nothing.
const COMMAND: &str = "uname -s; echo \"$(ls -A | wc -l) entries\"";

/// The prompt of `windlass demo`.
pub(crate) const COUNT_PROMPT: &str = "Count to twelve slowly and report the last number.";
/// The file with the count.
pub(crate) const COUNT_FILE: &str = "counted.txt";

/// Suggestions at the end.
const NEXT: &str = r#"
Every step was recorded before you saw it. What to try next:

  windlass demo                  a kill in the middle of a tool call
  windlass run --continue "..."  more in this thread
  windlass chat                  the same, as a conversation
  windlass doctor                what this machine can do, and what is missing
"#;

#[derive(Debug)]
pub(crate) struct Demonstration;

/// Its next text and tool call.
struct ScriptedReply {
    text: String,
    call: Option<(&'static str, Value)>,
}

impl ScriptedReply {
    fn call(text: impl Into<String>, name: &'static str, arguments: Value) -> Self {
        Self {
            text: text.into(),
            call: Some((name, arguments)),
        }
    }

    fn end(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            call: None,
        }
    }
}

/// A call of this turn with its result.
struct CompletedCall<'a> {
    name: &'a str,
    result: &'a Value,
    error: Option<&'a str>,
}

/// Continues the script from the state of the turn. The answer depends only on the conversation, so that another process continues at the same step.
fn answer(prompt: &str, done: &[CompletedCall<'_>]) -> ScriptedReply {
    let of = |name: &str| done.iter().find(|done| done.name == name);
    let Some(listed) = of("list") else {
        let text = "I am the demonstration model: I follow a script and need no API key and no network. The tools, the sandbox and the records are real.\n\n\
                    First I list the directory.\n";
        return ScriptedReply::call(text, "list", json!({}));
    };
    let descriptive_file = descriptive_file(listed.result);
    if let (Some(file), None) = (descriptive_file, of("read")) {
        return ScriptedReply::call("", "read", json!({ "path": file, "lines": 20 }));
    }
    let Some(ran) = of("shell") else {
        return ScriptedReply::call(
            "\nNow a command, in a sandbox. Calls that could change something need an approval.\n",
            "shell",
            json!({ "command": COMMAND }),
        );
    };
    ScriptedReply::end(farewell(
        prompt,
        listed,
        descriptive_file.zip(of("read")),
        ran,
    ))
}

/// Counts in a file, slowly enough to be killed in the middle. After a restart, it reads how far the count got.
fn count(done: &[CompletedCall<'_>]) -> ScriptedReply {
    let of = |name: &str| done.iter().find(|done| done.name == name);
    let Some(ran) = of("shell") else {
        let command = format!(
            "for i in $(seq 12); do echo $i >> {COUNT_FILE}; sleep 0.25; done; echo all twelve"
        );
        return ScriptedReply::call(
            "I count in a file, with a command that takes three seconds.\n",
            "shell",
            json!({ "command": command }),
        );
    };
    if ran.error.is_none() && ran.result["exit_code"] == 0 {
        return ScriptedReply::end("\nI counted to twelve without an interruption.\n");
    }
    let Some(read) = of("read") else {
        return ScriptedReply::call(
            format!(
                "\nThe record of my command: {}\nSo I do not run it again, but check how far it got.\n",
                ran.error.unwrap_or("it was interrupted")
            ),
            "read",
            json!({ "path": COUNT_FILE }),
        );
    };
    let count = read.result["line_count"].as_u64().unwrap_or_default();
    ScriptedReply::end(format!("\nThe count reached {count}.\n"))
}

/// Finds the file that describes a directory best.
fn descriptive_file(listed: &Value) -> Option<&'static str> {
    let entries = listed["entries"].as_array()?;
    DESCRIPTIVE_FILES.into_iter().find(|name| {
        let mut files = entries.iter().filter(|entry| entry["kind"] == "file");
        files.any(|entry| entry["name"] == **name)
    })
}

fn farewell(
    prompt: &str,
    listed: &CompletedCall<'_>,
    read: Option<(&str, &CompletedCall<'_>)>,
    ran: &CompletedCall<'_>,
) -> String {
    let count = listed.result["entry_count"].as_u64().unwrap_or_default();
    let mut text =
        format!("\nYou asked: {prompt}\n\nA script cannot answer that, but this happened:\n\n");
    text += &match listed.error {
        None if count == 1 => "- This directory has 1 entry.\n".to_owned(),
        None => format!("- This directory has {count} entries.\n"),
        Some(error) => format!("- This directory could not be read: {error}\n"),
    };
    if let Some((file, read)) = read {
        let content = read.result["content"].as_str().unwrap_or_default();
        let lines = content.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty());
        if let Some(first) = lines.next() {
            let first: String = first.chars().take(80).collect();
            text += &format!("- {file} begins with: {first}\n");
        }
    }
    text += &match (ran.error, ran.result["output"].as_str()) {
        (None, Some(output)) => {
            let output: Vec<_> = output.lines().collect();
            let sandbox = ran.result["sandbox"].as_str().unwrap_or("none");
            format!(
                "- The command ran (sandbox: {sandbox}) and printed: {}\n",
                output.join(", ")
            )
        }
        (error, _) => format!(
            "- The command did not run: {}\n",
            error.unwrap_or("it printed nothing")
        ),
    };
    text += NEXT;
    text
}

/// Returns the newest turn of a conversation, starting with the user's message.
fn newest(history: &History) -> Vec<&Message> {
    let mut turn = Vec::new();
    for message in history.iter().rev() {
        turn.push(&**message);
        if message.role == MessageRole::User {
            break;
        }
    }
    turn.reverse();
    turn
}

/// Returns the calls of a turn that have results.
fn done<'a>(turn: &[&'a Message]) -> Vec<CompletedCall<'a>> {
    let calls = turn.iter().flat_map(|message| message.tool_calls());
    let done = calls.filter_map(|call| {
        let results = turn
            .iter()
            .filter_map(|message| message.tool_result_content());
        let result = results.into_iter().find(|it| it.tool_call_id == call.id)?;
        Some(CompletedCall {
            name: &call.name,
            result: result.result.as_ref().unwrap_or(&Value::Null),
            error: result.error.as_deref(),
        })
    });
    done.collect()
}

#[async_trait]
impl LlmDriver for Demonstration {
    async fn chat_completion_stream(
        &self,
        _messages: Vec<LlmMessage>,
        _config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        // Calls outside turns, such as for a summary.
        Ok(streamed("A demonstration.", None))
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let turn = newest(&request.history);
        let prompt = turn.first().and_then(|message| message.text());
        let done = done(&turn);
        let ScriptedReply { text, call } = match prompt.unwrap_or_default() {
            COUNT_PROMPT => count(&done),
            prompt => answer(prompt, &done),
        };
        let call = call.map(|(name, arguments)| ToolCall {
            id: format!("demonstration_{}", done.len()),
            name: name.to_owned(),
            arguments,
        });
        Ok(streamed(&text, call))
    }
}

fn streamed(text: &str, call: Option<ToolCall>) -> LlmResponseStream {
    let words = text.split_inclusive(' ').filter(|word| !word.is_empty());
    let words = words.map(|word| LlmStreamEvent::TextDelta(word.to_owned()));
    let finish = if call.is_some() { "tool_calls" } else { "stop" };
    let metadata = LlmCompletionMetadata {
        model: Some(NAME.to_owned()),
        finish_reason: Some(finish.to_owned()),
        ..LlmCompletionMetadata::default()
    };
    let mut events: Vec<_> = words.collect();
    events.extend(call.map(|call| LlmStreamEvent::ToolCalls(vec![call])));
    events.push(LlmStreamEvent::Done(Box::new(metadata)));
    Box::pin(stream::iter(events).then(|event| async {
        tokio::time::sleep(WORD).await;
        Ok(event)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step<'a>(name: &'a str, result: &'a Value) -> CompletedCall<'a> {
        CompletedCall {
            name,
            result,
            error: None,
        }
    }

    #[test]
    fn script_lists_reads_runs_and_summarizes() {
        let listed = json!({ "entry_count": 2, "entries": [
            { "name": "README.md", "kind": "file" }, { "name": "src", "kind": "directory" }] });
        let read = json!({ "content": "\n# A project\n" });
        let ran = json!({ "output": "Linux\n2 entries\n", "sandbox": "landlock" });
        let name = |answer: ScriptedReply| answer.call.map(|(name, _)| name);
        assert_eq!(name(answer("x", &[])), Some("list"));
        let mut steps = vec![step("list", &listed)];
        assert_eq!(name(answer("x", &steps)), Some("read"));
        steps.push(step("read", &read));
        assert_eq!(name(answer("x", &steps)), Some("shell"));
        steps.push(step("shell", &ran));
        let last = answer("What is here?", &steps);
        assert!(last.call.is_none());
        for part in [
            "What is here?",
            "# A project",
            "landlock",
            "Linux, 2 entries",
        ] {
            assert!(last.text.contains(part), "{part}: {}", last.text);
        }
        let nothing = json!({});
        steps[2] = CompletedCall {
            name: "shell",
            result: &nothing,
            error: Some("denied"),
        };
        assert!(answer("x", &steps).text.contains("denied"));
    }
}
