//! The line editor of a chat: history, completion, several lines, and an external editor.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use reedline::{
    Color, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory, Highlighter,
    IdeMenu, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch,
    Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, StyledText, Suggestion,
    default_emacs_keybindings,
};
use tokio::sync::oneshot;
use windlass_core::bounds::is_active;

use super::Style;
use crate::data::private_file;

/// Maximum number of lines in the history file.
const MAX_HISTORY_LINES: usize = 1000;
const MENU: &str = "completion";
/// The payload of the key that opens the external editor.
const EDIT: &str = "edit";
/// The command of the key that opens the last result.
const OPEN: &str = "/show";
/// The editor if neither `VISUAL` nor `EDITOR` is set.
const USUAL_EDITOR: &str = "vi";

/// A proposal that completes the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The text that replaces the input from byte `start` to the cursor.
    pub(crate) text: String,
    pub(crate) start: usize,
    pub(crate) summary: String,
    /// Whether a space follows.
    pub(crate) is_whole: bool,
}

/// Returns the proposals for the input before the cursor.
pub(crate) type Completions = Box<dyn FnMut(&str) -> Vec<Completion> + Send>;

/// What the user entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    Text(String),
    /// The user pressed Ctrl-C, which removed the input.
    Interrupt,
    /// The user pressed Ctrl-D in an empty input.
    End,
}

pub(crate) struct LineEditor {
    /// `None` while a line is read.
    editor: Option<Box<Reedline>>,
}

impl LineEditor {
    /// Creates an editor with the history of a data directory.
    pub(crate) fn open(data: &Path, completions: Completions) -> Self {
        let mut keys = default_emacs_keybindings();
        let next = vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ];
        let edit = ReedlineEvent::ExecuteHostCommand(EDIT.to_owned());
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(next),
        );
        keys.add_binding(
            KeyModifiers::SHIFT,
            KeyCode::BackTab,
            ReedlineEvent::MenuPrevious,
        );
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('g'), edit);
        let open = ReedlineEvent::ExecuteHostCommand(OPEN.to_owned());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), open);
        let menu = IdeMenu::default().with_name(MENU);
        let editor = Reedline::create()
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_completer(Box::new(InputCompleter(completions)))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_highlighter(Box::new(Inert))
            .with_ansi_colors(Style::for_stdout().has_colour)
            .use_bracketed_paste(true);
        let editor = match history(data) {
            Ok(history) => editor.with_history(Box::new(history)),
            // The history is optional; the chat works without it.
            Err(_) => editor,
        };
        Self {
            editor: Some(Box::new(editor)),
        }
    }

    /// Inserts text that the user can edit in the next input.
    pub(crate) fn insert(&mut self, text: &str) {
        if let Some(editor) = &mut self.editor {
            editor.run_edit_commands(&[EditCommand::InsertString(text.to_owned())]);
        }
    }

    /// Reads an input. After a cancellation, the editor cannot be used again: it still waits for a key.
    pub(crate) async fn read(&mut self) -> Result<Entered> {
        loop {
            let editor = self.editor.take().context("the line editor has failed")?;
            let (editor, read) = read_line(editor).await?;
            let editor = self.editor.insert(editor);
            match read? {
                Signal::Success(line) => return Ok(Entered::Text(line)),
                Signal::CtrlC => return Ok(Entered::Interrupt),
                Signal::HostCommand(key) if key == EDIT => edit_externally(editor),
                Signal::HostCommand(command) => {
                    // The cursor is still in the input's line.
                    writeln!(io::stdout())?;
                    return Ok(Entered::Text(command));
                }
                _ => return Ok(Entered::End),
            }
        }
    }
}

/// Reads a line in a detached thread: the process can exit while the editor blocks on a terminal that is gone.
async fn read_line(mut editor: Box<Reedline>) -> Result<(Box<Reedline>, io::Result<Signal>)> {
    let (send, line) = oneshot::channel();
    std::thread::spawn(move || {
        let read = editor.read_line(&ChatPrompt);
        // The receiver may be dropped already.
        let _ = send.send((editor, read));
    });
    line.await.context("the line editor has failed")
}

/// Replaces the input with the text that the user writes in the external editor.
fn edit_externally(editor: &mut Reedline) {
    match edited(editor.current_buffer_contents()) {
        Ok(text) => {
            let text = text.trim_end_matches('\n').to_owned();
            editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(text)]);
        }
        Err(error) => crate::cli::note(format!("error: {error:#}")),
    }
}

fn edited(text: &str) -> Result<String> {
    let set = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(crate::cli::set_variable);
    let command = set.unwrap_or_else(|| USUAL_EDITOR.to_owned());
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or(USUAL_EDITOR);
    // Other users cannot open this directory.
    let private = fs::Permissions::from_mode(0o700);
    let directory = tempfile::Builder::new().permissions(private).tempdir()?;
    let file = directory.path().join("prompt.md");
    fs::write(&file, text)?;
    let status = Command::new(program).args(words).arg(&file).status();
    let status = status.with_context(|| {
        format!("the editor `{command}` does not start; set VISUAL or EDITOR to another")
    })?;
    ensure!(status.success(), "the editor `{command}` failed: {status}");
    fs::read_to_string(&file).context("the text of the editor cannot be read")
}

/// Opens the history file, which only its owner can read.
fn history(data: &Path) -> Result<FileBackedHistory> {
    let file = data.join("chat_history");
    private_file::prepare(&file)?;
    Ok(FileBackedHistory::with_file(MAX_HISTORY_LINES, file)?)
}

struct InputCompleter(Completions);

impl Completer for InputCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = line.get(..pos).unwrap_or_default();
        let found = (self.0)(before).into_iter();
        let found = found.map(|completion| Suggestion {
            value: completion.text,
            description: (!completion.summary.is_empty()).then_some(completion.summary),
            span: Span::new(completion.start.min(pos), pos),
            append_whitespace: completion.is_whole,
            ..Suggestion::default()
        });
        CompletionResult::fresh(found.collect::<Vec<_>>())
    }
}

/// Shows the input. A pasted text may contain characters that control the terminal or hide others.
struct Inert;

impl Highlighter for Inert {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut shown = StyledText::new();
        shown.push((Color::Default.normal(), inert(line)));
        shown
    }
}

/// Replaces active characters with visible ones of the same number of bytes, because the editor refers to positions in bytes.
fn inert(line: &str) -> String {
    let shown = line.chars().map(|character| match character.len_utf8() {
        _ if character == '\n' || !is_active(character) => character,
        _ if character == '\t' => ' ',
        1 => '?',
        2 => '¿',
        3 => '\u{fffd}',
        _ => '\u{1fbc4}',
    });
    shown.collect()
}

/// The prompt in front of an input line.
struct ChatPrompt;

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }
    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }
    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", inert(&search.term)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_control_characters_are_shown_inert_with_the_same_length() {
        let pasted = "a\u{1b}]0;title\u{7}\u{9b}2J\u{202e}b\n\u{e0001}ü";
        let shown = inert(pasted);
        assert_eq!(shown.len(), pasted.len());
        assert!(shown.starts_with("a?]0;title?¿2J\u{fffd}b\n"), "{shown}");
        assert!(
            !shown.chars().any(|it| it != '\n' && is_active(it)),
            "{shown}"
        );
    }
}
