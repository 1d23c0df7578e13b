//! Tool calls: their kind, their main argument, and exactly what an approval allows.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_core::bounds::one_line;
use windlass_protocol::Item;
use windlass_protocol::events::EventToolCall;

/// A tool call as the user sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ShownCall {
    pub(crate) name: String,
    /// The arguments; null while they are unknown.
    #[serde(default)]
    pub(crate) input: Value,
}

impl From<EventToolCall> for ShownCall {
    fn from(EventToolCall { name, input, .. }: EventToolCall) -> Self {
        Self { name, input }
    }
}

impl ShownCall {
    /// Returns the call of an item; `None` for an item without a call.
    pub(crate) fn from_item(item: &Item) -> Option<Self> {
        let tool = item.metadata.as_ref()?.get("tool")?;
        Self::deserialize(tool).ok()
    }
}

/// The effect of a tool, as its name suggests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolKind {
    Read,
    Change,
    Search,
    Command,
    Other,
}

impl ToolKind {
    /// Determines the kind from the name of a tool of ours or of an external agent.
    pub(crate) fn from_name(name: &str) -> Self {
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

/// The arguments that describe a call best, in order of preference.
const MAIN_ARGUMENTS: [&str; 7] = [
    "command",
    "path",
    "file_path",
    "pattern",
    "url",
    "query",
    "title",
];

/// Returns the argument that describes a call best, such as its command or path, else all arguments.
pub(crate) fn main_argument(input: &Value) -> String {
    let main = MAIN_ARGUMENTS.iter().find_map(|name| input[*name].as_str());
    let text = match (main, input) {
        (Some(main), _) => main.to_owned(),
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

/// Returns the call that an approval allows. The approval is authoritative: an agent may request another call than it announced under the same name.
/// Announced arguments that differ from the approval are listed under `announced`.
pub(crate) fn approval_call(
    name: &str,
    describe: &str,
    announced: Option<&ShownCall>,
) -> ShownCall {
    let arguments = describe
        .strip_prefix(name)
        .and_then(|rest| serde_json::from_str::<Value>(rest).ok());
    let mut input = arguments.unwrap_or_else(|| json!({ "description": describe }));
    let announced = announced.map(|call| &call.input);
    if let (Some(input), Some(Value::Object(announced))) = (input.as_object_mut(), announced) {
        let mut others: Map<_, _> = announced.clone();
        others.retain(|field, value| input.get(field) != Some(value));
        if !others.is_empty() {
            input.insert("announced".to_owned(), Value::Object(others));
        }
    }
    ShownCall {
        name: name.to_owned(),
        input,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_argument_describes_a_call() {
        assert_eq!(main_argument(&json!({ "command": "ls\n-la" })), "ls\\n-la");
        assert_eq!(main_argument(&json!({ "path": "a", "content": "b" })), "a");
        assert_eq!(
            main_argument(&json!({ "file_path": "a", "content": "b" })),
            "a"
        );
        assert_eq!(main_argument(&json!({})), "");
        assert_eq!(main_argument(&json!({ "x": 1 })), r#"{"x":1}"#);
        assert!(!main_argument(&json!({ "command": "\x1b[2Jx" })).contains('\x1b'));
    }

    #[test]
    fn tools_of_external_agents_are_recognized_by_name() {
        for (name, kind) in [
            ("shell", ToolKind::Command),
            ("Bash", ToolKind::Command),
            ("files::Edit", ToolKind::Change),
            ("Write", ToolKind::Change),
            ("Read", ToolKind::Read),
            ("Grep", ToolKind::Search),
            ("mcp__a__b", ToolKind::Other),
        ] {
            assert_eq!(ToolKind::from_name(name), kind, "{name}");
        }
    }

    #[test]
    fn approval_overrides_the_announced_call() {
        let call = |command: &str| ShownCall {
            name: "Bash".to_owned(),
            input: json!({ "command": command }),
        };
        let announced = call("ls");
        let same = approval_call("Bash", r#"Bash {"command":"ls"}"#, Some(&announced));
        assert_eq!(same, announced);
        let other = r#"Bash {"command":"rm -r ."}"#;
        assert_eq!(approval_call("Bash", other, None), call("rm -r ."));
        let call = approval_call("Bash", other, Some(&announced));
        assert_eq!(call.input["command"], "rm -r .");
        assert_eq!(call.input["announced"]["command"], "ls");
        let words = approval_call("Bash", "something else", None);
        assert_eq!(words.input["description"], "something else");
    }
}
