//! Formats a call that needs an approval: its command, the diff of its change, or its arguments. Nothing is omitted.

use std::path::{Component, Path};
use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use windlass_core::bounds::{exact_line, exact_lines, one_line};

use super::tool_call::{ShownCall, path_of};
use super::{Colour, Style, ToolKind};
use crate::data::own_file::{self, FileRejected};

/// Longer runs of whitespace are replaced by their length, so that they cannot push text out of sight.
const MAX_SPACES: usize = 8;
/// The same limit at the beginning of a line of a file.
const MAX_INDENT: usize = 40;
/// Time limit for a minimal diff; beyond it, a larger one is shown.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum size of a file with its change to be shown with context, in bytes.
const MAX_SHOWN: usize = 2 << 20;

pub(super) type StyledLine = (Colour, String);

/// Names the tool and what it wants to do.
pub(super) fn heading(tool: &ShownCall) -> String {
    let name = exact_line(&tool.name).into_owned();
    let input = &tool.input;
    match (ToolKind::from_name(&name), path_of(input)) {
        (ToolKind::Change, Some((_, path))) => {
            format!("{name} wants to change {}", exact_line(path))
        }
        (ToolKind::Command, _) | (_, None) => format!("{name} wants to run"),
        (_, Some((_, path))) => format!("{name} wants to run on {}", exact_line(path)),
    }
}

/// Formats a call as lines. The format depends on the name of the tool; its other arguments follow.
pub(super) fn proposal(tool: &ShownCall, cwd: &Path, style: Style) -> Vec<StyledLine> {
    let input = &tool.input;
    let text = |name: &str| input[name].as_str();
    let (command, content) = (text("command"), text("content"));
    let replacement = (text("old_string"), text("new_string"));
    let (mut lines, shown) = match (ToolKind::from_name(&tool.name), command, path_of(input)) {
        (ToolKind::Command, Some(command), _) => (command_lines(command, style), vec!["command"]),
        (ToolKind::Change, _, Some((field, path))) => match (replacement, content) {
            ((Some(old), Some(new)), _) => {
                let is_all = input["replace_all"] == true;
                let diff = edit_diff(cwd, path, (old, new, is_all), style);
                (diff, vec![field, "old_string", "new_string"])
            }
            ((None, None), Some(content)) => {
                let diff = overwrite_diff(cwd, path, content, style);
                (diff, vec![field, "content"])
            }
            _ => return arguments(input, style),
        },
        _ => return arguments(input, style),
    };
    for (name, value) in input.as_object().into_iter().flatten() {
        if !shown.contains(&name.as_str()) {
            let line = exact_lines(&format!("{name}: {value}")).replace('\n', "\\n");
            lines.push((Colour::Plain, counted(&line, MAX_SPACES, style)));
        }
    }
    lines
}

/// Formats a call as plain text.
pub(crate) fn describe(tool: &ShownCall, cwd: &Path) -> String {
    let style = Style {
        has_unicode: true,
        ..Style::PLAIN
    };
    let lines = proposal(tool, cwd, style).into_iter();
    let lines: Vec<_> = lines.map(|(_, line)| line).collect();
    lines.join("\n")
}

fn command_lines(command: &str, style: Style) -> Vec<StyledLine> {
    let command = exact_lines(command);
    let lines = command.split('\n').map(|line| {
        let line = format!("$ {}", counted(line, MAX_SPACES, style));
        (Colour::Plain, line)
    });
    let mut lines: Vec<_> = lines.collect();
    // The text after the last line break is not a line.
    if lines.len() > 1 && command.ends_with('\n') {
        lines.pop();
    }
    lines
}

fn arguments(input: &Value, style: Style) -> Vec<StyledLine> {
    let text = serde_json::to_string_pretty(input).unwrap_or_default();
    let text = exact_lines(&text);
    let lines = text.lines().map(|line| counted(line, MAX_INDENT, style));
    lines.map(|line| (Colour::Plain, line)).collect()
}

/// Shows the new contents of a file as a diff to its current contents.
fn overwrite_diff(cwd: &Path, path: &str, content: &str, style: Style) -> Vec<StyledLine> {
    match current_contents(cwd, path) {
        Ok(current) => difference(&current.unwrap_or_default(), content, style),
        Err(why) => {
            let note = format!(
                "(the current contents are not shown: {})",
                one_line(&why.to_string())
            );
            let mut lines = vec![(Colour::Warning, note)];
            lines.extend(difference("", content, style));
            lines
        }
    }
}

/// Shows a replacement with its context if the file is readable and contains the old text, else the two texts.
fn edit_diff(
    cwd: &Path,
    path: &str,
    (old, new, is_all): (&str, &str, bool),
    style: Style,
) -> Vec<StyledLine> {
    let before = current_contents(cwd, path).ok().flatten();
    let count = match (&before, old) {
        (None, _) | (_, "") => 0,
        (Some(before), _) => before.matches(old).count(),
    };
    // Many small replacements may make the file large.
    let is_small = |before: &str| {
        let after = new.len().checked_mul(count);
        after.is_some_and(|after| before.len().saturating_add(after) <= MAX_SHOWN)
    };
    match before {
        Some(before) if (count == 1 || is_all && count > 1) && is_small(&before) => {
            difference(&before, &before.replace(old, new), style)
        }
        _ => {
            let whole = |text: &str| format!("{text}\n");
            let mut lines = difference(&whole(old), &whole(new), style);
            if is_all && count > 1 {
                lines.push((Colour::Warning, format!("({count} times)")));
            }
            lines
        }
    }
}

/// Returns the current contents of a file below the directory; `None` if it does not exist.
fn current_contents(cwd: &Path, path: &str) -> Result<Option<String>, FileRejected> {
    // The tools resolve `..` textually, and the system through links: it may be another file.
    let mut parts = Path::new(path).components();
    if parts.any(|part| part == Component::ParentDir) {
        return Err(std::io::Error::other("its path contains `..`").into());
    }
    let named = cwd.join(path);
    let real = match named.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !real.starts_with(cwd.canonicalize()?) {
        return Err(FileRejected::Outside);
    }
    own_file::read_regular(&real)
}

fn difference(before: &str, after: &str, style: Style) -> Vec<StyledLine> {
    if before == after {
        return vec![(Colour::Dim, "(nothing changes)".to_owned())];
    }
    let mut diff = TextDiff::configure();
    let diff = diff.timeout(DIFF_TIMEOUT).diff_lines(before, after);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
        lines.push((Colour::Plain, hunk.header().to_string()));
        for change in hunk.iter_changes() {
            // Escaped after the comparison: two texts that look the same once escaped are still a change.
            let ended = change.value().strip_suffix('\n');
            let line = exact_lines(ended.unwrap_or(change.value()));
            let (colour, sign) = match change.tag() {
                ChangeTag::Insert => (Colour::Good, '+'),
                ChangeTag::Delete => (Colour::Bad, '-'),
                ChangeTag::Equal => (Colour::Plain, ' '),
            };
            // The sign comes before the indent.
            lines.push((
                colour,
                format!("{sign}{}", counted(&line, MAX_INDENT, style)),
            ));
            if ended.is_none() {
                lines.push((Colour::Dim, "(no line break at the end)".to_owned()));
            }
        }
    }
    lines
}

/// Replaces runs of whitespace that are longer than [`MAX_SPACES`], or than `indent` at the beginning of the line, by their length.
fn counted(line: &str, indent: usize, style: Style) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    let mut most = indent;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_whitespace());
        let (blanks, others) = rest.split_at(end.unwrap_or(rest.len()));
        match (blanks.chars().count(), style.has_unicode) {
            (count, _) if count <= most => shown.push_str(blanks),
            (count, true) => shown.push_str(&format!("␣×{count}")),
            (count, false) => shown.push_str(&format!("<{count} spaces>")),
        }
        let end = others.find(char::is_whitespace).unwrap_or(others.len());
        let (characters, after) = others.split_at(end);
        shown.push_str(characters);
        (rest, most) = (after, MAX_SPACES);
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    const UNICODE: Style = Style {
        has_unicode: true,
        ..Style::PLAIN
    };

    fn format_call(name: &str, input: Value, cwd: &Path) -> Vec<String> {
        let name = name.to_owned();
        let tool = ShownCall { name, input };
        let lines = proposal(&tool, cwd, UNICODE).into_iter();
        lines.map(|(_, line)| line).collect()
    }

    #[test]
    fn commands_changes_and_other_calls_are_formatted() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        std::fs::write(here.join("a"), "one\ntwo\n").unwrap();
        let command = format_call("shell", json!({ "command": "ls\nrm x" }), here);
        assert_eq!(command, ["$ ls", "$ rm x"]);
        for (tool, path) in [("write", "path"), ("Write", "file_path")] {
            let change = format_call(tool, json!({ path: "a", "content": "one\n2\n" }), here);
            assert_eq!(change[1..], [" one", "-two", "+2"]);
        }
        let edit = json!({ "path": "a", "old_string": "one", "new_string": "1" });
        let edit = format_call("edit", edit, here);
        assert_eq!(edit[1..], ["-one", "+1", " two"], "with context");
        let other = json!({ "path": "a", "old_string": "three", "new_string": "3" });
        assert_eq!(format_call("edit", other, here)[1..], ["-three", "+3"]);
        assert_eq!(
            format_call("other", json!({ "x": 1 }), here),
            ["{", "  \"x\": 1", "}"]
        );
        let hostile = format_call("shell", json!({ "command": "echo \x1b[2J" }), here);
        assert!(!hostile[0].contains('\x1b'));
    }

    #[test]
    fn escaped_characters_differ_from_their_escapes() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        std::fs::write(here.join("a"), "\\u{202e}x\nend\n").unwrap();
        let change = format_call(
            "write",
            json!({ "path": "a", "content": "\u{202e}x\nend" }),
            here,
        );
        assert_eq!(
            change[1..],
            [
                "-\\u{202e}x",
                "-end",
                "+\\u{202e}x",
                "+end",
                "(no line break at the end)"
            ]
        );
    }

    #[test]
    fn huge_replacement_is_shown_as_two_texts() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        std::fs::write(here.join("a"), "x".repeat(1 << 19)).unwrap();
        let new = "y".repeat(1 << 19);
        let edit =
            json!({ "path": "a", "old_string": "x", "new_string": new, "replace_all": true });
        let lines = format_call("edit", edit, here);
        assert_eq!(
            lines[1..4],
            [
                "-x".to_owned(),
                format!("+{new}"),
                "(524288 times)".to_owned()
            ]
        );
    }

    #[test]
    fn no_part_of_a_command_is_hidden() {
        let here = Path::new("/");
        let long = format_call("Bash", json!({ "command": "x\n".repeat(100) }), here);
        assert_eq!(long.len(), 100);
        let far = format!("ls{}rm x", " ".repeat(40));
        assert_eq!(
            format_call("Bash", json!({ "command": far }), here),
            ["$ ls␣×40rm x"]
        );
        let wide = "\u{3000}\u{3000}rm\u{2003}x\u{a0}y";
        assert_eq!(
            format_call("Bash", json!({ "command": wide }), here),
            ["$ \\u{3000}\\u{3000}rm\\u{2003}x\\u{a0}y"]
        );
        let blank = format_call("Bash", json!({ "command": "ls\u{2800}\u{3164}" }), here);
        assert_eq!(blank, ["$ ls\\u{2800}\\u{3164}"]);
    }

    #[test]
    fn other_arguments_are_listed() {
        let here = Path::new("/");
        let input = json!({ "command": "ls", "cwd": "/etc", "run_in_background": true });
        let lines = format_call("Bash", input, here);
        assert_eq!(lines, ["$ ls", "cwd: \"/etc\"", "run_in_background: true"]);
        let edit = json!({
            "path": "a", "file_path": "b", "old_string": "x", "new_string": "y", "replace_all": true, "content": "z",
        });
        let lines = format_call("edit", edit, here).join("\n");
        for part in ["file_path: \"b\"", "replace_all: true", "content: \"z\""] {
            assert!(lines.contains(part), "{lines}");
        }
    }

    #[test]
    fn tool_name_determines_the_format() {
        let here = Path::new("/");
        let lines = format_call(
            "deploy",
            json!({ "command": "ls", "path": "a", "content": "b" }),
            here,
        );
        assert_eq!(lines.first().unwrap(), "{");
        let lines = format_call(
            "write",
            json!({ "command": "ls", "path": "/none/a", "content": "b" }),
            here,
        );
        assert!(lines.contains(&"+b".to_owned()), "{lines:?}");
        assert!(lines.contains(&"command: \"ls\"".to_owned()), "{lines:?}");
    }

    #[test]
    fn heading_names_the_changed_file() {
        let heading_of = |name: &str, input: Value| {
            let name = name.to_owned();
            heading(&ShownCall { name, input })
        };
        assert_eq!(
            heading_of("Edit", json!({ "file_path": "a\nb" })),
            "Edit wants to change a\\nb"
        );
        assert_eq!(
            heading_of("edit", json!({ "command": "x", "path": "a" })),
            "edit wants to change a"
        );
        assert_eq!(
            heading_of("shell", json!({ "command": "x", "path": "a" })),
            "shell wants to run"
        );
    }

    #[test]
    fn only_regular_files_below_the_directory_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().join("here");
        std::fs::create_dir(&here).unwrap();
        std::fs::write(directory.path().join("outside"), "a secret\n").unwrap();
        symlink("../outside", here.join("link")).unwrap();
        let pipe = here.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let outside = directory.path().join("outside");
        for path in [
            "link",
            "../outside",
            "none/../README.md",
            "pipe",
            outside.to_str().unwrap(),
            "/proc/self/pagemap",
        ] {
            let lines = format_call("write", json!({ "path": path, "content": "new\n" }), &here);
            assert!(lines[0].contains("are not shown"), "{path}: {lines:?}");
            assert!(lines.contains(&"+new".to_owned()), "{path}: {lines:?}");
            assert!(!lines.join("\n").contains("secret"), "{path}: {lines:?}");
        }
        let big = vec![b'x'; usize::try_from(own_file::MAX_BYTES).unwrap() + 1];
        std::fs::write(here.join("big"), big).unwrap();
        let lines = format_call("write", json!({ "path": "big", "content": "new\n" }), &here);
        assert!(lines[0].contains("are not shown"), "{lines:?}");
    }
}
