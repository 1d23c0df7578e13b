//! The user's view of a tool result: its main text and its other fields.
//!
//! The model reads results unchanged, and records store them unchanged. Users want the output of a command, the content of a file, the matches of a
//! search. So the main text is looked up under the few names that tools use for it; all other fields are shown separately, and none is lost. A result
//! without such a text is shown in full, as JSON.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::text::plain_text;
use crate::message::ContentPart;

/// The fields in which tools return their main text: the output of a command, the content of a file, a diff.
const TEXTS: [&str; 3] = ["output", "content", "diff"];

/// The field with a note about omitted entries of a listing.
const REMARK: &str = "remark";

type Fields = Map<String, Value>;
/// Formats one entry of a listing; `None` for a value of another form.
type Line = fn(&Value) -> Option<String>;

/// A tool result for display.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Output<'a> {
    pub(super) text: Cow<'a, str>,
    /// Further fields of the result, by name.
    pub(super) other_fields: Vec<(&'a str, &'a Value)>,
}

/// Reads the parts of a result.
pub(super) fn output(parts: &[ContentPart]) -> Output<'_> {
    let Some((ContentPart::ToolResult(first), rest)) = parts.split_first() else {
        return only_text(plain_text(parts));
    };
    let Some(value) = first.result.as_ref().filter(|_| first.error.is_none()) else {
        return only_text(plain_text(parts));
    };
    let mut output = value_output(value);
    if !rest.is_empty() {
        output.text = format!("{}\n{}", output.text, plain_text(rest)).into();
    }
    output
}

fn only_text(text: Cow<'_, str>) -> Output<'_> {
    let other_fields = Vec::new();
    Output { text, other_fields }
}

fn value_output(value: &Value) -> Output<'_> {
    match value {
        Value::String(text) => only_text(text.as_str().into()),
        Value::Object(fields) => {
            fields_output(fields).unwrap_or_else(|| only_text(value.to_string().into()))
        }
        other => only_text(other.to_string().into()),
    }
}

fn fields_output(fields: &Fields) -> Option<Output<'_>> {
    for name in TEXTS {
        if let Some(text) = fields.get(name).and_then(Value::as_str) {
            return Some(with_other_fields(fields, name, text.into()));
        }
    }
    let listings: [(&str, Line); 4] = [
        ("content", part),
        ("files", file),
        ("matches", grep_match),
        ("entries", entry),
    ];
    for (name, line) in listings {
        if let Some(Value::Array(listed)) = fields.get(name) {
            let lines: Option<Vec<String>> = listed.iter().map(line).collect();
            return Some(with_other_fields(
                fields,
                name,
                listing(&lines?, fields).into(),
            ));
        }
    }
    written(fields).map(|text| with_other_fields(fields, "", text.into()))
}

fn with_other_fields<'a>(fields: &'a Fields, name: &str, text: Cow<'a, str>) -> Output<'a> {
    let others = fields.iter().filter(|(other, _)| *other != name);
    Output {
        text,
        other_fields: others.map(|(name, value)| (name.as_str(), value)).collect(),
    }
}

/// One line per entry. A truncated listing ends with a note, because it would otherwise look complete.
fn listing(lines: &[String], fields: &Fields) -> String {
    let mut text = lines.join("\n");
    if let Some(remark) = fields.get(REMARK).and_then(Value::as_str) {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{gap}[{remark}]");
    }
    text
}

/// Formats a content part of an MCP result.
fn part(value: &Value) -> Option<String> {
    match value.get("type")?.as_str()? {
        "text" => Some(value.get("text")?.as_str()?.to_owned()),
        kind => Some(format!("[{kind}]")),
    }
}

fn file(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Formats a match with its surrounding lines like grep.
fn grep_match(value: &Value) -> Option<String> {
    let path = value.get("path")?.as_str()?;
    let at = value.get("line")?.as_u64()?;
    let text = value.get("text")?.as_str()?;
    let around = |name| {
        let lines = value.get(name).and_then(Value::as_array);
        let lines = lines.into_iter().flatten().filter_map(Value::as_str);
        lines.collect::<Vec<_>>()
    };
    let (before, after) = (around("before"), around("after"));
    let mut shown = String::new();
    for (left, line) in (1..=before.len() as u64).rev().zip(before) {
        let _ = writeln!(shown, "{path}-{}-{line}", at.saturating_sub(left));
    }
    let _ = write!(shown, "{path}:{at}:{text}");
    for (further, line) in (1..).zip(after) {
        let _ = write!(shown, "\n{path}-{}-{line}", at.saturating_add(further));
    }
    Some(shown)
}

fn entry(value: &Value) -> Option<String> {
    let name = value.get("name")?.as_str()?;
    Some(match value.get("kind")?.as_str()? {
        "directory" => format!("{name}/"),
        _ => name.to_owned(),
    })
}

/// Formats the result of writing a file without a diff.
fn written(fields: &Fields) -> Option<String> {
    let path = fields.get("path")?.as_str()?;
    let bytes = fields.get("bytes")?.as_u64()?;
    let verb = if fields.get("created")?.as_bool()? {
        "created"
    } else {
        "wrote"
    };
    Some(format!("{verb} {path} ({bytes} bytes)"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: &Value) -> (String, Vec<String>) {
        let output = value_output(value);
        let names = output
            .other_fields
            .iter()
            .map(|(name, _)| (*name).to_owned());
        (output.text.into_owned(), names.collect())
    }

    #[test]
    fn main_text_is_separated_from_the_other_fields() {
        let cases = [
            (json!("hi\n"), "hi\n", vec![]),
            (
                json!({"exit_code": 0, "output": "hi\n", "duration_ms": 11, "sandbox": "landlock"}),
                "hi\n",
                vec!["duration_ms", "exit_code", "sandbox"],
            ),
            (
                json!({"path": "a", "bytes": 2, "line_count": 1, "start_line": 1, "content": "x\n"}),
                "x\n",
                vec!["bytes", "line_count", "path", "start_line"],
            ),
            (
                json!({"path": "a", "replacements": 1, "diff": "-x\n+y\n"}),
                "-x\n+y\n",
                vec!["path", "replacements"],
            ),
            (
                json!({"path": "a", "bytes": 2, "created": true}),
                "created a (2 bytes)",
                vec!["bytes", "created", "path"],
            ),
            (
                json!({"files": ["a", "b/c"], "remark": "only the first 2 files are shown"}),
                "a\nb/c\n[only the first 2 files are shown]",
                vec!["remark"],
            ),
            (json!({"files": []}), "", vec![]),
            (
                json!({"files_searched": 1, "matches": [
                    {"path": "a", "line": 2, "text": "two", "before": ["one"], "after": ["three"]},
                    {"path": "b", "line": 1, "text": "two"}]}),
                "a-1-one\na:2:two\na-3-three\nb:1:two",
                vec!["files_searched"],
            ),
            (
                json!({"path": ".", "entry_count": 2, "entries": [
                    {"name": "src", "kind": "directory"}, {"name": "a", "kind": "file", "bytes": 1}]}),
                "src/\na",
                vec!["entry_count", "path"],
            ),
            (
                json!({"content": [{"type": "text", "text": "hi"}, {"type": "image", "data": "…"}], "isError": false}),
                "hi\n[image]",
                vec!["isError"],
            ),
        ];
        for (value, text, other_fields) in cases {
            let other_fields: Vec<String> = other_fields.into_iter().map(str::to_owned).collect();
            assert_eq!(shown(&value), (text.to_owned(), other_fields), "{value}");
        }
    }

    #[test]
    fn result_without_a_main_text_is_shown_as_json() {
        for value in [
            json!({"temperature": 21}),
            json!({"files": [1]}),
            json!({"matches": [{"path": "a"}]}),
            json!({"content": 7}),
            json!({"path": "a", "bytes": -1, "created": true}),
            json!([1, 2]),
            json!(null),
        ] {
            assert_eq!(shown(&value), (value.to_string(), vec![]));
        }
    }

    #[test]
    fn largest_line_number_does_not_overflow() {
        let value =
            json!({"matches": [{"path": "a", "line": u64::MAX, "text": "t", "after": ["x"]}]});
        assert!(shown(&value).0.starts_with("a:"));
    }
}
