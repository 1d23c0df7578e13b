//! `windlass store backup`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use serde_json::json;
use windlass_store::{SqliteOptions, SqliteStore};

use super::progress::ProgressReporter;
use super::{StoreContext, as_json, report_findings, shown};
use crate::cli::{note, printable};

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store backup /var/backups/windlass/monday\n  windlass store backup --verify \
--json ~/backup\n\nIt contains the database and tokens.json (digests of tokens, no secrets). It does not contain secrets.key (unless \
--with-secrets-key is given: both together reveal the secrets of sessions), the operator's token, trusted.json, windlass.toml \
and workspaces.";

/// The key that encrypts the secrets of sessions.
pub(super) const SECRETS_KEY: &str = "secrets.key";
/// The digests of tokens.
pub(super) const TOKENS: &str = "tokens.json";

#[derive(Args)]
pub(super) struct Backup {
    /// Directory to create.
    destination: PathBuf,
    /// Includes `secrets.key`: readers of the backup can then decrypt the secrets of sessions.
    #[arg(long)]
    with_secrets_key: bool,
    /// Verifies every record of the backup afterwards.
    #[arg(long)]
    verify: bool,
}

impl Backup {
    pub(super) async fn run(self, context: &StoreContext) -> anyhow::Result<ExitCode> {
        let store = context.open_to_read().await?;
        ensure!(
            !is_below(&self.destination, &context.directory)?,
            "{} is inside the data directory, which a restore moves away; name a directory outside of {}",
            printable(&self.destination),
            printable(&context.directory)
        );
        let key = context.directory.join(SECRETS_KEY);
        ensure!(
            !self.with_secrets_key || key.exists(),
            "there is no {SECRETS_KEY} in {}; back up a key of --secrets-key-file separately",
            printable(&context.directory)
        );
        let mut files = vec![context.directory.join(TOKENS)];
        files.retain(|file| file.exists());
        if self.with_secrets_key {
            files.push(key.clone());
        }
        let progress = ProgressReporter::start("copying pages:");
        let state = progress.state();
        let copied = move |at: windlass_store::sqlite::BackupProgress| state.set(at.done, at.total);
        let report = store.back_up(&self.destination, files, copied).await?;
        progress.state().start_phase("verifying the backup");
        let verified = if self.verify {
            let options = SqliteOptions::new(&self.destination);
            let backup = SqliteStore::open_read_only(options).await?;
            Some(backup.verify().await?)
        } else {
            None
        };
        drop(progress);
        let findings = verified
            .as_ref()
            .map_or(&[][..], |verified| &verified.findings);
        let json = json!({
            "backup": shown(&self.destination),
            "files": report.files,
            "bytes": report.bytes,
            "commits": report.commits,
            "verified": verified.as_ref().map(|verified| verified.records),
            "findings": as_json(findings),
        });
        let text = format!(
            "{} contains {} ({} bytes)",
            printable(&self.destination),
            report.files.join(", "),
            report.bytes
        );
        context.print(&json, &text)?;
        if key.exists() && !self.with_secrets_key {
            note("the backup does not contain secrets.key; keep a copy of it elsewhere");
        }
        Ok(report_findings(
            findings,
            "the backup is as damaged as the store; keep older backups",
        ))
    }
}

/// Returns whether a path is below a directory. The end of the path may not exist yet.
fn is_below(path: &Path, directory: &Path) -> anyhow::Result<bool> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find_map(|above| above.canonicalize().ok());
    Ok(there.is_some_and(|there| {
        directory
            .canonicalize()
            .is_ok_and(|it| there.starts_with(it))
    }))
}
