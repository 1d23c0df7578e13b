//! `windlass store restore`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_store::sqlite::{
    HostFile, Prefer, RestoreOptions, RestoreReport, RestoreStep, restore,
};

use super::backup::{SECRETS_KEY, TOKENS};
use super::progress::Progress;
use super::{StoreCommand, shown};
use crate::cli::{note, printable};
use crate::daemon::made_token;

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store restore /var/backups/windlass/monday\n  windlass store restore \
--data /srv/windlass ~/backup\n\nIt needs the data directory for itself: stop the daemon first. The backup is verified before \
anything is replaced, and what was there before is kept as DIR.before-restore-TIME. Tokens that the directory has stay as they \
are, so that revoked ones do not come back; a key for secrets comes from the backup, where it holds one.";

#[derive(Args)]
pub(super) struct Restore {
    /// The directory that `windlass store backup` made.
    source: PathBuf,
}

/// Files that belong to the data besides the database, and which version is preferred if both exist.
fn host_files() -> Vec<HostFile> {
    let files = [
        (TOKENS, Prefer::Present),
        (SECRETS_KEY, Prefer::Backup),
        (made_token::FILE, Prefer::Present),
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
    pub(super) async fn run(self, place: &StoreCommand) -> anyhow::Result<ExitCode> {
        let options = RestoreOptions {
            from: self.source.clone(),
            into: place.directory.clone(),
            host_files: host_files(),
            chain_key: None,
        };
        let progress = Progress::of("copying the backup");
        let state = progress.state();
        let step = move |step| {
            if step == RestoreStep::Completed {
                state.go_on("verifying the copy");
            }
        };
        let report = restore(options, step).await?;
        drop(progress);
        self.tell(place, &report)?;
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&self, place: &StoreCommand, report: &RestoreReport) -> anyhow::Result<()> {
        let whose = |prefer| match prefer {
            Prefer::Backup => "backup",
            Prefer::Present => "kept",
        };
        let taken = report.taken.iter();
        let taken: Map<String, Value> = taken
            .map(|(name, prefer)| (name.clone(), whose(*prefer).into()))
            .collect();
        let has_key = taken.contains_key(SECRETS_KEY);
        let said = json!({
            "restored": shown(&place.directory),
            "made_at": report.made_at,
            "commits": report.commits,
            "records": report.records,
            "files": taken,
            "former": report.former.as_deref().map(shown),
        });
        let words = format!(
            "{} is as it was at {}, with {} records",
            printable(&place.directory),
            report.made_at,
            report.records
        );
        place.tell(&said, &words)?;
        if let Some(former) = &report.former {
            note(&format!(
                "what was there before is in {}; remove it once it is not needed",
                printable(former)
            ));
        }
        if !has_key {
            note(
                "there is no key for secrets; where sessions have some, start with --secrets-key-file",
            );
        }
        Ok(())
    }
}
