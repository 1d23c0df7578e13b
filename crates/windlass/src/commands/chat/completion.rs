//! Completion of slash commands and their arguments, and of paths after `@`.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::bounds::is_active;

use super::commands::COMMANDS;
use crate::terminal::Completion;

/// Maximum number of proposals.
const MAX: usize = 200;
const MODES: [(&str, &str); 4] = [
    ("agent", "asks before it changes something"),
    ("plan", "changes nothing"),
    ("operate", "may also start other agents"),
    ("yolo", "never asks"),
];

/// The words that a chat can complete.
pub(super) struct Words {
    pub(super) cwd: PathBuf,
    /// Skills with their descriptions.
    pub(super) skills: Vec<(String, String)>,
}

impl Words {
    /// Returns the proposals for an input before the cursor.
    pub(super) fn complete(&self, before: &str) -> Vec<Completion> {
        let Some(command) = before.strip_prefix('/') else {
            return self.mention(before);
        };
        let Some((name, argument)) = command.split_once(' ') else {
            let built_in = COMMANDS.iter().map(|it| (it.name, it.summary));
            let skills = self.skills.iter();
            let skills = skills.map(|(name, description)| (name.as_str(), description.as_str()));
            return choices(built_in.chain(skills), command, 1);
        };
        let start = before.len() - argument.len();
        match name {
            "mode" => choices(MODES.into_iter(), argument, start),
            "undo" => choices(
                [("files", "also restores files")].into_iter(),
                argument,
                start,
            ),
            "queue" => choices([("remove", "")].into_iter(), argument, start),
            "image" | "file" | "export" => self.paths(argument, start, false),
            _ => self.mention(before),
        }
    }

    /// Completes the path of the last word if it begins with `@`.
    fn mention(&self, before: &str) -> Vec<Completion> {
        let word = before
            .rsplit(char::is_whitespace)
            .next()
            .unwrap_or_default();
        match word.strip_prefix('@') {
            Some(path) => self.paths(path, before.len() - path.len(), true),
            None => Vec::new(),
        }
    }

    fn paths(&self, path: &str, start: usize, is_mention: bool) -> Vec<Completion> {
        let (directory, beginning) = match path.rfind('/') {
            Some(slash) => path.split_at(slash + 1),
            None => ("", path),
        };
        let at = self.cwd.join(directory);
        let Ok(entries) = fs::read_dir(&at) else {
            return Vec::new();
        };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // Without the first character, hidden files are not proposed.
            let is_meant = name.starts_with(beginning)
                && (!name.starts_with('.') || beginning.starts_with('.'));
            (is_meant && !name.chars().any(|it| is_active(it) || it == '"')).then_some(name)
        });
        let mut names: Vec<_> = names.take(MAX).collect();
        names.sort();
        let completions = names.into_iter().map(|name| {
            let is_directory = Path::new(&at).join(&name).is_dir();
            let slash = if is_directory { "/" } else { "" };
            let path = format!("{directory}{name}{slash}");
            let has_space = path.contains(char::is_whitespace);
            let text = if is_mention && has_space && !is_directory {
                format!("\"{path}\"")
            } else {
                path
            };
            Completion {
                text,
                start,
                summary: String::new(),
                is_whole: is_mention && !is_directory,
            }
        });
        completions.collect()
    }
}

fn choices<'a>(
    all: impl Iterator<Item = (&'a str, &'a str)>,
    beginning: &str,
    start: usize,
) -> Vec<Completion> {
    let meant = all.filter(|(name, _)| name.starts_with(beginning));
    let completions = meant.take(MAX).map(|(name, summary)| Completion {
        text: name.to_owned(),
        start,
        summary: summary.to_owned(),
        is_whole: true,
    });
    completions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &Words, before: &str) -> Vec<String> {
        let completions = words.complete(before).into_iter();
        completions
            .map(|it| format!("{}{}", &before[..it.start], it.text))
            .collect()
    }

    #[test]
    fn commands_arguments_and_paths_are_completed() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        for name in ["src/main.rs", "src/m x.rs", ".hidden", "x\u{1b}[2J"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let words = Words {
            cwd: directory.path().to_owned(),
            skills: vec![("release".to_owned(), "How to release".to_owned())],
        };
        assert_eq!(texts(&words, "/mo"), ["/model", "/mode"]);
        assert_eq!(texts(&words, "/rel"), ["/release"]);
        assert_eq!(texts(&words, "/mode p"), ["/mode plan"]);
        assert_eq!(texts(&words, "look at @"), ["look at @src/"]);
        assert_eq!(texts(&words, "@src/ma"), ["@src/main.rs"]);
        assert_eq!(texts(&words, "@src/m "), Vec::<String>::new());
        assert_eq!(texts(&words, "@src/m"), ["@\"src/m x.rs\"", "@src/main.rs"]);
        assert_eq!(texts(&words, "/image src/ma"), ["/image src/main.rs"]);
        assert_eq!(texts(&words, "me@sr"), Vec::<String>::new());
    }
}
