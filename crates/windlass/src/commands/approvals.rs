//! `windlass approvals`: stored approvals of a project.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use windlass_server::{ProjectApprovals, RememberedCall};

use crate::cli::note;
use crate::data;
use crate::inert_json::write_value;

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
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Lists them, the oldest first.
    List,
    /// Forgets one: somebody is asked again.
    Forget {
        /// Its id, as `list` shows it.
        id: String,
    },
}

impl RememberedApprovals {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = data::directory(self.data)?;
        let book = ProjectApprovals::new(&directory);
        let mut stdout = std::io::stdout().lock();
        match self.subcommand {
            Subcommand::List => {
                let all = book.list()?;
                if all.is_empty() && !self.json {
                    note(
                        "nothing is allowed for good yet; [p]roject, where a call is asked about, does it",
                    );
                }
                for call in all {
                    let allowed = call.allowed_at.format("%Y-%m-%d %H:%M");
                    let cwd = call.cwd.display();
                    let (id, tool, arguments) = (&call.id, &call.tool, &call.arguments);
                    let line = format!("{id}  {allowed}  {cwd}  {tool} {arguments}");
                    write_value(&mut stdout, self.json, &shown(&call), &line)?;
                }
            }
            Subcommand::Forget { id } => {
                data::check(&directory)?;
                // If the directory does not exist, there are no stored approvals, and it is not created.
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
