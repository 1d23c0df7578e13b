//! The command line: flags, subcommands, exit codes and error output.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::ErrorCode;
use windlass_store::SqliteError;

use crate::client::connect::describe_api_error;
use crate::commands::acp::Acp;
use crate::commands::approvals::RememberedApprovals;
use crate::commands::automations::Automations;
use crate::commands::backends::Backends;
use crate::commands::chat::Chat;
use crate::commands::config::ConfigCommand;
use crate::commands::console::Console;
use crate::commands::demo::Demo;
use crate::commands::doctor::Doctor;
use crate::commands::mcp::Mcp;
use crate::commands::prompt::PromptCommand;
use crate::commands::replay::Replay;
use crate::commands::run::Run;
use crate::commands::runs::RunsCommand;
use crate::commands::serve::Serve;
use crate::commands::store::StoreCommand;
use crate::commands::tasks::TasksCommand;
use crate::commands::threads::{EventsCommand, Threads};
use crate::commands::token::Token;
use crate::log;
use crate::terminal::{Style, columns, wrap_words};

/// The turn failed.
pub(crate) const FAILED: u8 = 1;
/// The command line or the configuration is invalid; nothing was done.
pub(crate) const USAGE: u8 = 2;
/// The user stopped it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs AI agents and records every step. Without a command, `windlass` on a terminal starts a chat.
#[derive(Parser)]
#[command(name = "windlass", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of all commands.
#[derive(Args)]
pub(crate) struct GlobalOptions {
    /// Directory that tools may access.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Configuration file, which overrides your own file [default: windlass.toml in the current directory, if it is trusted].
    #[arg(long, global = true, value_name = "F")]
    pub(crate) config: Option<PathBuf>,
}

const EXIT_CODES: &str = "Exit codes: 0 the turn completed, 1 it failed, 2 the command line or the configuration is \
invalid, 130 it was interrupted.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Runs an agent with a prompt and shows its progress.
    Run(Run),
    /// Starts an interactive thread.
    Chat(Chat),
    /// Kills an agent in the middle of a tool call, resumes its turn, and explains the result.
    Demo(Demo),
    /// Lists, shows, forks, rewinds, exports and deletes threads.
    Threads(Threads),
    /// Shows the events of a thread.
    Events(EventsCommand),
    /// Verifies the decisions of a recorded thread, or repeats turns with another model.
    Replay(Replay),
    /// Queues unattended work and shows its results.
    Tasks(TasksCommand),
    /// Queues tasks on a schedule.
    Automations(Automations),
    /// Shows the system prompt of a new thread in this directory.
    Prompt(PromptCommand),
    /// Checks this machine: sandbox, models, data and external agents; and suggests fixes.
    Doctor(Doctor),
    /// Serves the Runtime API over HTTP and SSE, and run tracing over WebSocket.
    #[command(alias = "app-server")]
    Serve(Serve),
    /// Prints a link to the web console of a running daemon, and opens it if there is a browser.
    Console(Console),
    /// Serves threads to an editor that speaks the Agent Client Protocol, over standard input and output.
    Acp(Acp),
    /// Serves threads and runs to other agents as tools of the Model Context Protocol.
    Mcp(Mcp),
    /// Lists runs and shows their records.
    Runs(RunsCommand),
    /// Creates, lists and revokes tokens for the daemon.
    Token(Token),
    /// Lists and removes permanently allowed calls of projects.
    Approvals(RememberedApprovals),
    /// Checks, backs up, restores and compacts the daemon's data.
    Store(StoreCommand),
    /// Shows and creates configuration files, and controls which ones apply.
    Config(ConfigCommand),
    /// Lists the external agents that can execute turns, and checks whether they respond.
    Backends(Backends),
    /// Writes a completion script for a shell.
    #[command(
        after_help = "Example: windlass completions bash > ~/.local/share/bash-completion/completions/windlass"
    )]
    Completions {
        /// Name of the shell.
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Returns whether the configuration file applies to this command.
    pub(crate) fn is_configured(&self) -> bool {
        match self {
            Self::Config(config) => config.is_configured(),
            Self::Runs(_)
            | Self::Token(_)
            | Self::Console(_)
            | Self::Approvals(_)
            | Self::Store(_)
            | Self::Demo(_)
            | Self::Completions { .. } => false,
            _ => true,
        }
    }
}

/// Parses the command line. If it is invalid, prints the reason and exits.
pub(crate) fn parse() -> Cli {
    let mut command = without_blank_variables(Cli::command());
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.len() == 1 && io::stdin().is_terminal() && io::stdout().is_terminal() {
        words.push("chat".into());
    }
    let matches = command.try_get_matches_from_mut(words);
    let read = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    read.unwrap_or_else(|error| without_hidden(error.format(&mut command)).exit())
}

/// Treats blank environment variables as unset.
fn without_blank_variables(command: clap::Command) -> clap::Command {
    let is_blank = |name: &OsStr| {
        let value = std::env::var_os(name);
        value.is_some_and(|value| value.to_string_lossy().trim().is_empty())
    };
    let command = command.mut_args(|arg| {
        if arg.get_env().is_some_and(is_blank) {
            arg.env(Resettable::Reset)
        } else {
            arg
        }
    });
    command.mut_subcommands(without_blank_variables)
}

/// Removes hidden commands from the suggestions of an error.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let mut visible = Vec::new();
    visible_names(&Cli::command(), &mut visible);
    let names = names.iter().filter(|name| visible.contains(*name));
    let names: Vec<String> = names.cloned().collect();
    if names.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand)
    } else {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(names),
        )
    };
    error
}

/// Collects the names of all commands that are visible in a help text.
fn visible_names(command: &clap::Command, names: &mut Vec<String>) {
    for command in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        names.push(command.get_name().to_owned());
        names.extend(command.get_visible_aliases().map(str::to_owned));
        visible_names(command, names);
    }
}

/// Formats an error with its causes. A cause that is already part of the text before it is not repeated.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    // Some errors contain advice for programs, which users of the command line cannot follow.
    let causes = error.chain().map(|cause| {
        if let Some(SqliteError::Locked { directory, holder }) = cause.downcast_ref() {
            let directory = printable(directory);
            format!(
                "{directory} is used by process {holder}; stop it first, or name another directory with --data"
            )
        } else if let Some(error) = cause.downcast_ref() {
            describe_api_error(error)
        } else {
            without_code(&cause.to_string()).to_owned()
        }
    });
    causes.fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        known if known.contains(&cause) => text,
        known => format!("{known}: {cause}"),
    })
}

/// Strips the prefix meant for programs: an error code or kind.
pub(crate) fn without_code(error: &str) -> &str {
    let is_code = |name: &str| ErrorCode::ALL.iter().any(|code| code.as_str() == name);
    match error.split_once(": ") {
        Some((name, message)) if name == "LLM error" || is_code(name) => message,
        _ => error,
    }
}

/// Parses a count of at least 1.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let read = text.parse().ok().filter(|count| *count > 0);
    read.ok_or_else(|| "expected a whole number, 1 or more".to_owned())
}

/// Returns an environment variable that is set and not blank.
pub(crate) fn set_variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    value.filter(|value| !value.trim().is_empty())
}

/// Returns `named`, or the current directory.
pub(crate) fn or_current(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match named {
        Some(named) => Ok(named),
        None => std::env::current_dir().context("the current directory does not exist"),
    }
}

/// Escapes a path so that it cannot control the terminal or look like another line.
pub(crate) fn printable(path: &Path) -> String {
    one_line(&path.display().to_string()).into_owned()
}

/// Reports a failed command and returns its exit code. A closed standard output is not a failure: the reader needs no more.
pub(crate) fn failed(error: &anyhow::Error, code: u8) -> ExitCode {
    if is_reader_gone(error) {
        return ExitCode::SUCCESS;
    }
    if log::is_json() {
        tracing::error!("{}", lines(&error_text(error)))
    } else {
        note(format!("error: {}", error_text(error)))
    }
    ExitCode::from(code)
}

/// Returns whether the reader of standard output is gone. A broken connection is another error.
pub(crate) fn is_reader_gone(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Reports a message that is not data on stderr, or in the log if the log is JSON.
pub(crate) fn note(text: impl AsRef<str>) {
    let text = text.as_ref();
    if log::is_json() {
        return tracing::info!("{}", lines(text));
    }
    let text = if io::stderr().is_terminal() {
        wrap_words(&lines(text), columns()).join("\n")
    } else {
        lines(text).into_owned()
    };
    let text = text.replace('…', Style::for_stderr().dots());
    // stderr is closed, so there is no way to report this.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestion_names_no_hidden_command() {
        let suggested = |word: &str| {
            let refused = Cli::try_parse_from(["windlass", word]).err().unwrap();
            without_hidden(refused).to_string()
        };
        let text = suggested("sevre");
        assert!(
            text.contains("'serve'") && !text.contains("app-server"),
            "{text}"
        );
        let text = suggested("app-serve");
        assert!(!text.contains("app-server"), "{text}");
        assert!(Cli::try_parse_from(["windlass", "app-server"]).is_ok());
    }

    /// Collects the help texts of a command and its subcommands.
    fn helps(command: &clap::Command, text: &mut Vec<String>) {
        text.push(command.clone().render_long_help().to_string());
        for command in command.get_subcommands() {
            helps(command, text);
        }
    }

    #[test]
    fn helps_say_thread_and_not_conversation() {
        let (mut text, mut cli) = (Vec::new(), Cli::command());
        cli.build();
        helps(&cli, &mut text);
        assert!(text.len() > 30);
        for help in text {
            assert!(!help.to_lowercase().contains("conversation"), "{help}");
        }
    }

    /// A line break inside a paragraph would remain after the paragraph is wrapped to the width of the terminal.
    #[test]
    fn paragraphs_of_helps_are_wrapped_once() {
        fn check(command: &clap::Command) {
            let after = command.get_after_help().map(ToString::to_string);
            for paragraph in after.unwrap_or_default().split("\n\n") {
                let mut lines = paragraph.lines().skip(1);
                let broken = lines.find(|line| !line.starts_with("  "));
                assert_eq!(broken, None, "windlass {}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn only_a_closed_output_is_not_a_failure() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_reader_gone(&broken().into()));
        let lost = windlass_protocol::CallError::Unreachable(broken());
        assert!(!is_reader_gone(&lost.into()));
        let elsewhere = anyhow::anyhow!("the daemon is gone");
        assert!(!is_reader_gone(&elsewhere));
        assert!(!is_reader_gone(&io::Error::other("no room").into()));
    }

    #[test]
    fn error_codes_are_not_displayed() {
        for (error, message) in [
            ("cwd_outside_root: /x lies outside", "/x lies outside"),
            ("LLM error: openai/m: slow down", "openai/m: slow down"),
            ("openai/m: slow down", "openai/m: slow down"),
            ("slow down", "slow down"),
        ] {
            assert_eq!(without_code(error), message);
            assert_eq!(error_text(&anyhow::anyhow!(error.to_owned())), message);
        }
        let locked = SqliteError::Locked {
            directory: "/data".into(),
            holder: "7".to_owned(),
        };
        let text = error_text(&anyhow::Error::new(locked).context("nothing was changed"));
        assert_eq!(
            text,
            "nothing was changed: /data is used by process 7; stop it first, or name another directory with --data"
        );
    }

    #[test]
    fn repeated_cause_is_displayed_once() {
        let error = std::io::Error::other("no room");
        let error = anyhow::Error::new(error).context("cannot write x: no room");
        assert_eq!(error_text(&error), "cannot write x: no room");
        let error = anyhow::anyhow!("no room").context("cannot write x");
        assert_eq!(error_text(&error), "cannot write x: no room");
    }
}
