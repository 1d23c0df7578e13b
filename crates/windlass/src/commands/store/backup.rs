//! `windlass store backup`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use serde_json::json;
use windlass_store::{SqliteOptions, SqliteStore};

use super::progress::Progress;
use super::{StoreCommand, as_json, named, shown};
use crate::cli::{note, printable};

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store backup /var/backups/windlass/monday\n  windlass store backup --verify \
--json ~/backup\n\nIn it: the database, and tokens.json (digests of tokens, no secrets). Not in it: secrets.key, unless \
--with-secrets-key asks for it, since who has both can read the secrets of sessions; the operator's token; trusted.json; \
windlass.toml; workspaces.";

/// The key that encrypts the secrets of sessions.
pub(super) const SECRETS_KEY: &str = "secrets.key";
/// The digests of tokens.
pub(super) const TOKENS: &str = "tokens.json";

#[derive(Args)]
pub(super) struct Backup {
    /// The directory to make; it must not be there yet.
    destination: PathBuf,
    /// Puts `secrets.key` into the backup: who gets the backup can then read the secrets of sessions.
    #[arg(long)]
    with_secrets_key: bool,
    /// Checks every record of the backup afterwards.
    #[arg(long)]
    verify: bool,
}

impl Backup {
    pub(super) async fn run(self, place: &StoreCommand) -> anyhow::Result<ExitCode> {
        let store = place.open_to_read().await?;
        ensure!(
            !is_below(&self.destination, &place.directory)?,
            "{} is inside of the data directory, which a restore moves away; name a place outside of {}",
            printable(&self.destination),
            printable(&place.directory)
        );
        let key = place.directory.join(SECRETS_KEY);
        ensure!(
            !self.with_secrets_key || key.exists(),
            "there is no {SECRETS_KEY} in {}; a key that is named with --secrets-key-file is saved where it is",
            printable(&place.directory)
        );
        let mut files = vec![place.directory.join(TOKENS)];
        files.retain(|file| file.exists());
        if self.with_secrets_key {
            files.push(key.clone());
        }
        let progress = Progress::of("copying pages:");
        let state = progress.state();
        let copied = move |at: windlass_store::sqlite::BackupProgress| state.set(at.done, at.total);
        let report = store.back_up(&self.destination, files, copied).await?;
        progress.state().go_on("verifying the backup");
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
        let said = json!({
            "backup": shown(&self.destination),
            "files": report.files,
            "bytes": report.bytes,
            "commits": report.commits,
            "verified": verified.as_ref().map(|verified| verified.records),
            "findings": as_json(findings),
        });
        let words = format!(
            "{} holds {} ({} bytes)",
            printable(&self.destination),
            report.files.join(", "),
            report.bytes
        );
        place.tell(&said, &words)?;
        if key.exists() && !self.with_secrets_key {
            note("secrets.key is not in it; keep a copy of it in another place");
        }
        Ok(named(
            findings,
            "the backup is as damaged as the store; keep older ones",
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
