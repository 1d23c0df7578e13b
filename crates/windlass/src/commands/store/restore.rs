//! `windlass store restore`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_store::sqlite::{
    HostFile, Prefer, RestoreOptions, RestoreReport, RestoreStep, restore,
};

use super::backup::{SECRETS_KEY, TOKENS};
use super::progress::ProgressReporter;
use super::{StoreContext, shown};
use crate::cli::{note, printable};
use crate::daemon::api_token;

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store restore /var/backups/windlass/monday\n  windlass store restore \
--data /srv/windlass ~/backup\n\nIt needs exclusive access to the data directory: stop the daemon first. The backup is verified before \
anything is replaced, and the previous directory becomes DIR.before-restore-TIME. The directory's current tokens remain, so \
that revoked ones stay revoked; the key for secrets comes from the backup if it contains one.";

#[derive(Args)]
pub(super) struct Restore {
    /// Directory that `windlass store backup` created.
    source: PathBuf,
}

/// Files of the data besides the database, and the version that is used if both exist.
fn host_files() -> Vec<HostFile> {
    let files = [
        (TOKENS, Prefer::Present),
        (SECRETS_KEY, Prefer::Backup),
        (api_token::FILE, Prefer::Present),
        ("chat_history", Prefer::Present),
        ("trusted.json", Prefer::Present),
        ("approvals.json", Prefer::Present),
        (".gitignore", Prefer::Present),
    ];
    let host_file = |(name, prefer): (&str, Prefer)| HostFile {
        name: name.to_owned(),
        prefer,
    };
    files.map(host_file).into()
}

impl Restore {
    pub(super) async fn run(self, context: &StoreContext) -> anyhow::Result<ExitCode> {
        let options = RestoreOptions {
            from: self.source.clone(),
            into: context.directory.clone(),
            host_files: host_files(),
            chain_key: None,
        };
        let progress = ProgressReporter::start("copying the backup");
        let state = progress.state();
        let step = move |step| {
            if step == RestoreStep::Completed {
                state.start_phase("verifying the copy");
            }
        };
        let report = restore(options, step).await?;
        drop(progress);
        Self::print_report(context, &report)?;
        Ok(ExitCode::SUCCESS)
    }

    fn print_report(context: &StoreContext, report: &RestoreReport) -> anyhow::Result<()> {
        let source = |prefer| match prefer {
            Prefer::Backup => "backup",
            Prefer::Present => "existing",
        };
        let taken = report.taken.iter();
        let taken: Map<String, Value> = taken
            .map(|(name, prefer)| (name.clone(), source(*prefer).into()))
            .collect();
        let has_key = taken.contains_key(SECRETS_KEY);
        let json = json!({
            "restored": shown(&context.directory),
            "made_at": report.made_at,
            "commits": report.commits,
            "records": report.records,
            "files": taken,
            "former": report.former.as_deref().map(shown),
        });
        let text = format!(
            "{} is as it was at {}, with {} records",
            printable(&context.directory),
            report.made_at,
            report.records
        );
        context.print(&json, &text)?;
        if let Some(former) = &report.former {
            note(format!(
                "the previous data is in {}; remove it when it is no longer needed",
                printable(former)
            ));
        }
        if !has_key {
            note(
                "there is no key for secrets; if sessions have secrets, start with --secrets-key-file",
            );
        }
        Ok(())
    }
}
