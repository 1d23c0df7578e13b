//! The slash commands of a chat: their names, arguments, summaries and handlers.

use anyhow::Result;
use futures_util::future::LocalBoxFuture;
use windlass_config::nearest;
use windlass_core::bounds::one_line;

use super::ChatLoop;
use crate::cli::note;

/// Width of the column with the commands.
const WIDTH: usize = 17;
/// Maximum length of a skill's description in the help, in characters.
const MAX_DESCRIPTION: usize = 80;

type Handler = for<'a> fn(&'a mut ChatLoop, &'a str) -> LocalBoxFuture<'a, Result<()>>;

pub(super) struct SlashCommand {
    pub(super) name: &'static str,
    aliases: &'static [&'static str],
    arguments: &'static str,
    pub(super) summary: &'static str,
    pub(super) run: Handler,
}

macro_rules! commands {
    ($($name:literal $([$($alias:literal)*])? $arguments:literal $summary:literal $method:ident;)*) => {
        /// All commands, in the order of the help.
        pub(super) const COMMANDS: &[SlashCommand] = &[$(SlashCommand {
            name: $name,
            aliases: &[$($($alias),*)?],
            arguments: $arguments,
            summary: $summary,
            run: |chat, rest| Box::pin(chat.$method(rest)),
        }),*];
    };
}

commands! {
    "help" ["?"] "" "this text" help;
    "new" ["clear"] "[PROMPT]" "start a new thread" new_chat;
    "resume" "ID" "continue another thread; the end of its ID is enough" resume_other;
    "btw" "PROMPT" "ask a side question; the thread does not change" aside;
    "model" "[NAME]" "show the models, or use another one, as provider/model" model;
    "mode" "[NAME]" "show or set the mode: agent, plan, operate or yolo" mode;
    "plan" "[PROMPT]" "change nothing until /mode agent, or only for this prompt" plan;
    "yes" "" "allow all calls without asking" allow_all;
    "show" "[N]" "show the result #N, or the last one; so does Ctrl-O" show;
    "diff" "" "show the changes since the last commit" diff;
    "undo" "[files]" "undo the last turn; with `files` also its changes of files" undo;
    "context" "" "show how full the context window is" context;
    "compact" "[REASON]" "summarise the conversation to free the context window" compact;
    "cost" "" "show tokens, cost and time of this thread" cost;
    "image" "PATH" "send an image with the next prompt" image;
    "file" "PATH" "send a text file with the next prompt; also @PATH in a prompt" file;
    "queue" "[remove N]" "list prompts that wait for their turn, or remove one" queue;
    "agents" "" "list the agents that this thread started" agents;
    "mcp" "" "list the MCP servers" mcp;
    "rename" "TITLE" "give the thread a title" rename;
    "export" "[FILE]" "write all events of the thread as JSON lines" export;
    "quit" ["exit" "q"] "" "quit, as Ctrl-D does; Ctrl-C stops a turn" quit;
}

/// Finds a command by its name or alias.
pub(super) fn find(name: &str) -> Option<&'static SlashCommand> {
    let is_meant =
        |command: &&SlashCommand| command.name == name || command.aliases.contains(&name);
    COMMANDS.iter().find(is_meant)
}

/// Returns the message for an unknown command, with the nearest name.
pub(super) fn unknown(name: &str, skills: &[(String, String)]) -> String {
    let mut known: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    known.extend(skills.iter().map(|(name, _)| name.as_str()));
    let shown = one_line(name);
    match nearest(name, &known) {
        Some(meant) => format!("there is no command `/{shown}`; did you mean /{meant}?"),
        None => format!("there is no command `/{shown}`; /help lists the commands"),
    }
}

/// Shows all commands, the skills of the repository, and the keys of the editor.
pub(super) fn help(skills: &[(String, String)]) {
    let mut text = String::new();
    for command in COMMANDS {
        let usage = format!("/{} {}", command.name, command.arguments);
        text.push_str(&format!("{usage:WIDTH$} {}\n", command.summary));
    }
    if !skills.is_empty() {
        text.push_str("\nSkills of the repository:\n");
    }
    for (name, description) in skills {
        let description: String = one_line(description)
            .chars()
            .take(MAX_DESCRIPTION)
            .collect();
        let usage = format!("/{} [PROMPT]", one_line(name));
        text.push_str(&format!("{usage:WIDTH$} {description}\n"));
    }
    text.push_str(
        "\n@PATH in a prompt sends a file, an image or the list of a directory. Tab completes, Alt-Enter begins another line, Ctrl-R searches \
         earlier prompts, Ctrl-G opens $VISUAL or $EDITOR. During a turn, Enter queues a prompt, and Esc or Ctrl-C stops the turn.",
    );
    note(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_command_names_the_nearest() {
        let skills = [("release".to_owned(), String::new())];
        for (name, meant) in [
            ("modell", "did you mean /model?"),
            ("undp", "did you mean /undo?"),
            ("relase", "did you mean /release?"),
            ("\u{1b}[2J", "/help lists the commands"),
        ] {
            let text = unknown(name, &skills);
            assert!(text.ends_with(meant), "{text}");
            assert!(!text.contains('\u{1b}'));
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = COMMANDS
            .iter()
            .flat_map(|it| [it.name].into_iter().chain(it.aliases.iter().copied()))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(find("exit").is_some_and(|it| it.name == "quit"));
    }
}
