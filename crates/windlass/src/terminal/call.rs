//! A call of a tool: what kind it is of, what it is about, and what exactly somebody is asked to allow.

use serde_json::{Map, Value, json};
use windlass_core::bounds::one_line;

/// What a tool does to the world, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Change,
    Search,
    Command,
    Other,
}

impl Kind {
    /// Tells the kind by the name of a tool, of ours or of an agent of others.
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

/// Names the arguments that say what a call is about, the most telling first.
const TELLING: [&str; 7] = [
    "command",
    "path",
    "file_path",
    "pattern",
    "url",
    "query",
    "title",
];

/// Says in a few words what a call is about: its command, its path, or its arguments.
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

/// Returns the argument that names a file, and its name.
pub(super) fn path_of(input: &Value) -> Option<(&'static str, &str)> {
    let named = |name| input[name].as_str().map(|path| (name, path));
    named("path").or_else(|| named("file_path"))
}

/// Returns the call that an approval is about. What the approval says counts: an agent may ask for something else than the call that it
/// announced under the same name. What was announced and is not in the approval is told too, under a name of its own.
pub(crate) fn asked(approval: &Value, known: Option<&Value>) -> Value {
    let name = approval["tool_name"].as_str().unwrap_or("a tool");
    let described = approval["description"].as_str().unwrap_or_default();
    let arguments = described
        .strip_prefix(name)
        .and_then(|rest| serde_json::from_str::<Value>(rest).ok());
    let mut input = arguments.unwrap_or_else(|| json!({ "description": described }));
    let Some(known) = known else {
        return json!({ "name": name, "input": input });
    };
    if known["input"] == input && known["name"] == name {
        return known.clone();
    }
    if let (Some(input), Value::Object(announced)) = (input.as_object_mut(), &known["input"]) {
        let others = announced.iter();
        let others = others.filter(|(field, value)| input.get(*field) != Some(value));
        let others: Map<_, _> = others
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect();
        if !others.is_empty() {
            input.insert("announced".to_owned(), Value::Object(others));
        }
    }
    json!({ "name": name, "input": input })
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
        let announced = json!({ "name": "Bash", "input": { "command": "ls" } });
        let approval =
            |description: &str| json!({ "tool_name": "Bash", "description": description });
        let same = approval(r#"Bash {"command":"ls"}"#);
        assert_eq!(asked(&same, Some(&announced)), announced);
        let other = approval(r#"Bash {"command":"rm -r ."}"#);
        let meant = json!({ "name": "Bash", "input": { "command": "rm -r ." } });
        assert_eq!(asked(&other, None), meant);
        let told = asked(&other, Some(&announced));
        assert_eq!(told["input"]["command"], "rm -r .");
        assert_eq!(told["input"]["announced"]["command"], "ls");
        let words = asked(&approval("something else"), None);
        assert_eq!(words["input"]["description"], "something else");
    }
}
