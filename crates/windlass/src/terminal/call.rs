//! Tool calls: their kind, their main argument, and exactly what an approval allows.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_core::bounds::one_line;
use windlass_protocol::Item;
use windlass_protocol::events::EventToolCall;

/// A tool call as the user sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    /// The arguments; null while they are unknown.
    #[serde(default)]
    pub(crate) input: Value,
}

impl From<EventToolCall> for ToolCall {
    fn from(EventToolCall { name, input, .. }: EventToolCall) -> Self {
        Self { name, input }
    }
}

impl ToolCall {
    /// Returns the call of an item; `None` for an item without a call.
    pub(crate) fn of_item(item: &Item) -> Option<Self> {
        let tool = item.metadata.as_ref()?.get("tool")?;
        Self::deserialize(tool).ok()
    }
}

/// The effect of a tool, as far as its name indicates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Change,
    Search,
    Command,
    Other,
}

impl Kind {
    /// Determines the kind from the name of a tool, one of ours or of an external agent.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.rsplit("::").next().unwrap_or(name);
        match name.to_ascii_lowercase().as_str() {
            "read" | "list" | "ls" | "read_file" | "notebookread" => Self::Read,
            "write" | "edit" | "multiedit" | "notebookedit" | "write_file" | "replace"
            | "filechange" => Self::Change,
            "grep" | "glob" | "search" | "websearch" => Self::Search,
            "shell" | "bash" | "run_shell_command" | "commandexecution" | "command_execution" => {
                Self::Command
            }
            _ => Self::Other,
        }
    }
}

/// Arguments that describe a call best, in order of preference.
const TELLING: [&str; 7] = [
    "command",
    "path",
    "file_path",
    "pattern",
    "url",
    "query",
    "title",
];

/// Describes a call in a few words: its command, its path, or its arguments.
pub(crate) fn about(input: &Value) -> String {
    let told = TELLING.iter().find_map(|name| input[*name].as_str());
    let text = match (told, input) {
        (Some(told), _) => told.to_owned(),
        (None, Value::Object(fields)) if fields.is_empty() => String::new(),
        (None, Value::Null) => String::new(),
        (None, input) => input.to_string(),
    };
    one_line(&text).into_owned()
}

/// Returns the name and value of the argument that names a file.
pub(super) fn path_of(input: &Value) -> Option<(&'static str, &str)> {
    let named = |name| input[name].as_str().map(|path| (name, path));
    named("path").or_else(|| named("file_path"))
}

/// Returns the call that an approval is about. The approval is authoritative: an agent may ask for something else than the call that it announced
/// under the same name. Announced arguments that the approval does not contain are shown under `announced`.
pub(crate) fn asked(name: &str, described: &str, known: Option<&ToolCall>) -> ToolCall {
    let arguments = described
        .strip_prefix(name)
        .and_then(|rest| serde_json::from_str::<Value>(rest).ok());
    let mut input = arguments.unwrap_or_else(|| json!({ "description": described }));
    let announced = known.map(|known| &known.input);
    if let (Some(input), Some(Value::Object(announced))) = (input.as_object_mut(), announced) {
        let others = announced.iter();
        let others = others.filter(|(field, value)| input.get(*field) != Some(value));
        let others: Map<_, _> = others
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect();
        if !others.is_empty() {
            input.insert("announced".to_owned(), Value::Object(others));
        }
    }
    ToolCall {
        name: name.to_owned(),
        input,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_what_it_is_about() {
        assert_eq!(about(&json!({ "command": "ls\n-la" })), "ls\\n-la");
        assert_eq!(about(&json!({ "path": "a", "content": "b" })), "a");
        assert_eq!(about(&json!({ "file_path": "a", "content": "b" })), "a");
        assert_eq!(about(&json!({})), "");
        assert_eq!(about(&json!({ "x": 1 })), r#"{"x":1}"#);
        assert!(!about(&json!({ "command": "\x1b[2Jx" })).contains('\x1b'));
    }

    #[test]
    fn tools_of_others_are_known_by_name() {
        for (name, kind) in [
            ("shell", Kind::Command),
            ("Bash", Kind::Command),
            ("files::Edit", Kind::Change),
            ("Write", Kind::Change),
            ("Read", Kind::Read),
            ("Grep", Kind::Search),
            ("mcp__a__b", Kind::Other),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }

    #[test]
    fn what_an_approval_says_counts_and_not_what_was_announced() {
        let call = |command: &str| ToolCall {
            name: "Bash".to_owned(),
            input: json!({ "command": command }),
        };
        let announced = call("ls");
        let same = asked("Bash", r#"Bash {"command":"ls"}"#, Some(&announced));
        assert_eq!(same, announced);
        let other = r#"Bash {"command":"rm -r ."}"#;
        assert_eq!(asked("Bash", other, None), call("rm -r ."));
        let told = asked("Bash", other, Some(&announced));
        assert_eq!(told.input["command"], "rm -r .");
        assert_eq!(told.input["announced"]["command"], "ls");
        let words = asked("Bash", "something else", None);
        assert_eq!(words.input["description"], "something else");
    }
}
