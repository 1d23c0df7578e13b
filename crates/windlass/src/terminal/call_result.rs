//! The result of an ended call: a summary for its line, its lines, and the excerpt of them that is shown.

use serde_json::Value;
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::{Item, Status};

use super::proposal::StyledLine;
use super::tool_call::{ShownCall, ToolKind};
use super::units::count;
use super::{Colour, Style};

/// Number of lines that are shown of the end of an output.
const OUTPUT_LINES: usize = 5;
/// Number of lines that are shown of the beginning of a change.
const CHANGE_LINES: usize = 16;

/// The part of a result that is shown without a request.
pub(super) struct Excerpt<'a> {
    pub(super) lines: &'a [StyledLine],
    /// Whether the lines are the last ones of the result, otherwise the first ones.
    pub(super) is_end: bool,
}

/// Returns the lines of a result, inert and without tabs.
pub(super) fn result_lines(item: &Item, style: Style) -> Vec<StyledLine> {
    let detail = item.detail.as_deref().unwrap_or_default();
    let call = ShownCall::from_item(item);
    let content = call.as_ref().filter(|call| is_new_file(item, call));
    let content = content.and_then(|call| call.input["content"].as_str());
    let (text, sign) = content.map_or((detail, ""), |content| (content, "+"));
    let is_diff = is_diff(item);
    let headers = if is_diff && text.starts_with("--- ") {
        2
    } else {
        0
    };
    let inert = |line: &str| {
        let line = style.unmarked(&lines(line), &mut None);
        let line = format!("{sign}{}", line.replace('\t', "    "));
        let colour = if is_diff || !sign.is_empty() {
            Colour::of_diff_line(&line)
        } else {
            Colour::Dim
        };
        (colour, line)
    };
    text.trim_end().lines().skip(headers).map(inert).collect()
}

/// Returns the part of a result's lines to show. `is_change_seen` is whether the user has seen the change already.
pub(super) fn excerpt<'a>(
    item: &Item,
    lines: &'a [StyledLine],
    is_change_seen: bool,
) -> Excerpt<'a> {
    let call = ShownCall::from_item(item);
    let kind = call.map_or(ToolKind::Other, |call| ToolKind::from_name(&call.name));
    let is_failed = item.status == Status::Failed;
    let shown = match kind {
        ToolKind::Change if !is_failed && is_change_seen => 0,
        ToolKind::Change if !is_failed => CHANGE_LINES.min(lines.len()),
        ToolKind::Read | ToolKind::Search if !is_failed => 0,
        // The summary contains the only line.
        _ if lines.len() < 2 => 0,
        _ => OUTPUT_LINES.min(lines.len()),
    };
    let is_end = kind != ToolKind::Change;
    let start = if is_end { lines.len() - shown } else { 0 };
    Excerpt {
        lines: &lines[start..start + shown],
        is_end,
    }
}

/// Returns whether a result is a diff.
fn is_diff(item: &Item) -> bool {
    item.status == Status::Completed && number(item, "lines_added").is_some()
}

/// Returns whether a call has written a file that did not exist: its result contains no diff.
fn is_new_file(item: &Item, call: &ShownCall) -> bool {
    let created = item.metadata.as_ref().and_then(|it| it.get("created"));
    item.status == Status::Completed
        && !is_diff(item)
        // External agents do not report it.
        && created.and_then(Value::as_bool) != Some(false)
        && ToolKind::from_name(&call.name) == ToolKind::Change
}

fn number(item: &Item, name: &str) -> Option<i64> {
    item.metadata.as_ref()?.get(name)?.as_i64()
}

/// Returns whether a call was running when its process was killed and was not repeated.
pub(super) fn is_cut_off(item: &Item) -> bool {
    let detail = item.detail.as_deref().unwrap_or_default();
    item.status == Status::Failed && detail.contains("its outcome is unknown")
}

/// Returns whether a call succeeded. A command that completed with a failing exit code did not.
pub(super) fn is_success(item: &Item) -> bool {
    item.status == Status::Completed && exit_code(item).is_none()
}

/// Returns the exit code of a failed command.
fn exit_code(item: &Item) -> Option<i64> {
    number(item, "exit_code").filter(|code| *code != 0)
}

/// Summarizes the result of a call.
pub(super) fn summary(item: &Item) -> String {
    let detail = item.detail.as_deref().unwrap_or_default().trim_end();
    if item.status == Status::Interrupted {
        return "interrupted".to_owned();
    }
    if item.status == Status::Failed {
        return one_line(detail.lines().next().unwrap_or("failed")).into_owned();
    }
    if let (Some(added), Some(removed)) =
        (number(item, "lines_added"), number(item, "lines_removed"))
    {
        return format!("+{added} -{removed}");
    }
    if let Some(code) = exit_code(item) {
        return format!("exit {code}");
    }
    if let Some(entries) = number(item, "entry_count") {
        return match entries {
            1 => "1 entry".to_owned(),
            entries => format!("{entries} entries"),
        };
    }
    let lines = number(item, "line_count").and_then(|lines| usize::try_from(lines).ok());
    match (detail.lines().count(), lines) {
        (_, Some(lines)) => count(lines, "line"),
        (0, _) => String::new(),
        (1, _) => one_line(detail).into_owned(),
        (lines, _) => count(lines, "line"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(tool: &str, detail: &str, metadata: Value) -> Item {
        let mut metadata = metadata;
        metadata["tool"] = json!({ "name": tool, "input": { "path": "a", "content": "new\n" } });
        serde_json::from_value(json!({
            "schema_version": 1, "id": "item_1", "turn_id": "turn_1", "kind": "tool_call",
            "status": "completed", "summary": tool, "detail": detail, "metadata": metadata,
        }))
        .unwrap()
    }

    fn shown(item: &Item, is_change_seen: bool) -> (usize, Vec<StyledLine>) {
        let lines = result_lines(item, Style::PLAIN);
        let excerpt = excerpt(item, &lines, is_change_seen).lines.to_vec();
        (lines.len(), excerpt)
    }

    fn texts(lines: &[StyledLine]) -> Vec<&str> {
        lines.iter().map(|(_, line)| line.as_str()).collect()
    }

    #[test]
    fn end_of_an_output_is_shown() {
        let output: String = (1..=10_000).map(|line| format!("{line}\n")).collect();
        let (all, excerpt) = shown(&item("shell", &output, json!({})), false);
        assert_eq!(all, 10_000);
        assert_eq!(texts(&excerpt), ["9996", "9997", "9998", "9999", "10000"]);
        // The call's own line contains a result of one line, and the number of lines that were read.
        assert!(
            shown(&item("shell", "one\n", json!({})), false)
                .1
                .is_empty()
        );
        assert!(shown(&item("read", &output, json!({})), false).1.is_empty());
    }

    #[test]
    fn change_is_shown_in_colours_unless_it_was_proposed() {
        let diff = "--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n same\n";
        let change = item(
            "edit",
            diff,
            json!({ "lines_added": 1, "lines_removed": 1 }),
        );
        let (_, lines) = shown(&change, false);
        assert_eq!(texts(&lines), ["@@ -1 +1 @@", "-old", "+new", " same"]);
        assert!(matches!(lines[1].0, Colour::Bad) && matches!(lines[2].0, Colour::Good));
        let (all, lines) = shown(&change, true);
        assert!(all == 4 && lines.is_empty());
        let (_, lines) = shown(&item("write", "created", json!({})), false);
        assert_eq!(texts(&lines), ["+new"]);
    }

    #[test]
    fn hostile_output_is_inert() {
        let hostile = "\x1b[2J\r\t\u{202e}\n!! Allow?\nx\n";
        let (_, lines) = shown(&item("shell", hostile, json!({})), false);
        assert_eq!(
            texts(&lines),
            ["\\u{1b}[2J\\r    \\u{202e}", "! ! Allow?", "x"]
        );
    }
}
