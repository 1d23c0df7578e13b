//! `windlass approvals`: permanently allowed calls of projects.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use windlass_server::{ProjectApprovals, RememberedCall};

use crate::cli::note;
use crate::commands::data_options::DataOptions;
use crate::data;
use crate::inert_json::write_value;

/// Lists and removes permanently allowed calls of projects. Changes apply to turns that start later.
#[derive(Args)]
pub(crate) struct RememberedApprovals {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Lists the allowed calls, oldest first.
    List,
    /// Removes an allowed call: the next one needs an approval again.
    Forget {
        /// ID from `list`.
        id: String,
    },
}

impl RememberedApprovals {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = self.options.directory()?;
        let approvals = ProjectApprovals::new(&directory);
        let mut stdout = std::io::stdout().lock();
        match self.subcommand {
            Subcommand::List => {
                let all = approvals.list()?;
                if all.is_empty() && !self.options.json {
                    note(
                        "no calls are permanently allowed yet; answer an approval question with [p]roject to add one",
                    );
                }
                for call in all {
                    let allowed = call.allowed_at.format("%Y-%m-%d %H:%M");
                    let cwd = call.cwd.display();
                    let (id, tool, arguments) = (&call.id, &call.tool, &call.arguments);
                    let line = format!("{id}  {allowed}  {cwd}  {tool} {arguments}");
                    write_value(&mut stdout, self.options.json, &as_json(&call), &line)?;
                }
            }
            Subcommand::Forget { id } => {
                data::check(&directory)?;
                // A missing directory has no approvals, and is not created.
                if !directory.is_dir() || !approvals.forget(&id)? {
                    bail!(
                        "there is no permanently allowed call {id}; `windlass approvals list` shows all"
                    );
                }
                note(format!("{id} is removed"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(call: &RememberedCall) -> serde_json::Value {
    json!({
        "id": call.id, "root": call.root.display().to_string(), "cwd": call.cwd.display().to_string(),
        "tool": call.tool, "arguments": call.arguments, "allowed_at": call.allowed_at,
    })
}
