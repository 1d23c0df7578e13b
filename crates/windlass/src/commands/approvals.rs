//! `windlass approvals`: calls that somebody allowed for good in a project.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use windlass_core::bounds::one_line;
use windlass_server::{RememberedBook, RememberedCall};

use crate::cli::note;
use crate::data;
use crate::inert_json::json_line;

/// Lists and forgets the calls that somebody allowed for good in a project. Turns that begin later know at once.
#[derive(Args)]
pub(crate) struct RememberedApprovals {
    /// The data directory of the daemon [default: the user's own].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    word: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists them, the oldest first.
    List,
    /// Forgets one: somebody is asked again.
    Forget {
        /// Its id, as `list` shows it.
        id: String,
    },
}

impl RememberedApprovals {
    pub(crate) fn carry_out(self) -> anyhow::Result<ExitCode> {
        let directory = data::directory(self.data)?;
        let book = RememberedBook::new(&directory);
        let mut stdout = std::io::stdout().lock();
        match self.word {
            Verb::List => {
                let all = book.list()?;
                if all.is_empty() && !self.json {
                    note(
                        "nothing is allowed for good yet; [p]roject, where a call is asked about, does it",
                    );
                }
                for call in all {
                    if self.json {
                        writeln!(stdout, "{}", json_line(&shown(&call))?)?;
                        continue;
                    }
                    let allowed = call.allowed_at.format("%Y-%m-%d %H:%M");
                    let cwd = call.cwd.display();
                    let (id, tool, arguments) = (&call.id, &call.tool, &call.arguments);
                    let line = format!("{id}  {allowed}  {cwd}  {tool} {arguments}");
                    writeln!(stdout, "{}", one_line(&line))?;
                }
            }
            Verb::Forget { id } => {
                data::check(&directory)?;
                // Where there is no directory, nothing is remembered in it, and none is made.
                if !directory.is_dir() || !book.forget(&id)? {
                    bail!("nothing is remembered as {id}; `windlass approvals list` shows what is");
                }
                note(&format!("{id} is forgotten"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(call: &RememberedCall) -> serde_json::Value {
    json!({
        "id": call.id, "root": call.root.display().to_string(), "cwd": call.cwd.display().to_string(),
        "tool": call.tool, "arguments": call.arguments, "allowed_at": call.allowed_at,
    })
}
