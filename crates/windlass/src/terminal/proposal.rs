//! What somebody is asked to allow, as text: a command, the difference that a change makes, or the arguments.

use std::path::Path;

use serde_json::Value;
use similar::TextDiff;
use windlass_core::bounds::lines;

use super::{Colour, Style};

/// How many lines are shown.
const MAX_LINES: usize = 40;
/// How big a file may be to be compared.
const MAX_BYTES: u64 = 1024 * 1024;

/// Describes a call in lines.
pub(super) fn proposal(tool: &Value, cwd: &Path, style: Style) -> Vec<String> {
    let input = &tool["input"];
    let text = |name: &str| input[name].as_str();
    let path = text("path").or(text("file_path"));
    let all = match (text("command"), path) {
        (Some(command), _) => shown(command, |line| format!("$ {line}")),
        (None, Some(path)) => match (text("old_string"), text("new_string"), text("content")) {
            (Some(old), Some(new), _) => difference(old, new, style),
            (_, _, Some(content)) => difference(&now(&cwd.join(path)), content, style),
            _ => arguments(input),
        },
        _ => arguments(input),
    };
    let count = all.len();
    let mut kept: Vec<_> = all.into_iter().take(MAX_LINES).collect();
    if count > MAX_LINES {
        kept.push(format!("({} more lines)", count - MAX_LINES));
    }
    kept
}

fn shown(text: &str, as_line: impl Fn(&str) -> String) -> Vec<String> {
    lines(text).lines().map(as_line).collect()
}

fn arguments(input: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(input).unwrap_or_default();
    shown(&text, str::to_owned)
}

/// Returns what is in a file now; nothing where it is not there, or no text.
fn now(path: &Path) -> String {
    let is_small = std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
    let text = is_small.then(|| std::fs::read_to_string(path).ok());
    text.flatten().unwrap_or_default()
}

fn difference(before: &str, after: &str, style: Style) -> Vec<String> {
    let (before, after) = (lines(before), lines(after));
    let diff = TextDiff::from_lines(&*before, &*after);
    let text = diff.unified_diff().context_radius(2).to_string();
    let painted = |line: &str| match line.as_bytes().first() {
        Some(b'+') => style.paint(Colour::Good, line),
        Some(b'-') => style.paint(Colour::Bad, line),
        _ => line.to_owned(),
    };
    text.lines().map(painted).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Style = Style {
        is_live: false,
        has_colour: false,
        has_unicode: true,
    };

    #[test]
    fn a_command_a_change_and_anything_else_can_be_judged() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "one\ntwo\n").unwrap();
        let of = |input: Value| proposal(&json!({ "input": input }), directory.path(), PLAIN);
        assert_eq!(of(json!({ "command": "ls\nrm x" })), ["$ ls", "$ rm x"]);
        let change = of(json!({ "path": "a", "content": "one\n2\n" }));
        assert_eq!(change[1..], [" one", "-two", "+2"]);
        let edit = of(json!({ "path": "a", "old_string": "one", "new_string": "1" }));
        assert!(edit.contains(&"-one".to_owned()) && edit.contains(&"+1".to_owned()));
        assert_eq!(of(json!({ "x": 1 })), ["{", "  \"x\": 1", "}"]);
        let hostile = of(json!({ "command": "echo \x1b[2J" }));
        assert!(!hostile[0].contains('\x1b'));
        let long = of(json!({ "command": "x\n".repeat(100) }));
        assert_eq!(long.last().unwrap(), "(60 more lines)");
    }
}
