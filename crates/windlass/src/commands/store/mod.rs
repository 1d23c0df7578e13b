//! `windlass store`: checks, backs up and restores the daemon's data.

mod backup;
mod compact;
mod exchange;
mod progress;
mod rebuild;
mod restore;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use windlass_store::sqlite::Finding;
use windlass_store::{SqliteOptions, SqliteStore};

use crate::cli::{FAILED, note, printable};
use crate::data;
use crate::inert_json::write_value;

/// Looks after what the daemon keeps. `verify`, `export` and `backup` work beside a running daemon; `import`, `rebuild`,
/// `compact` and `restore` need the data directory for themselves.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Store {
    /// The data directory of the daemon [default: the user's own].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes what was done as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    subcommand: Subcommand,
}

const EXIT_CODES: &str = "Exit codes: 0 all is well, 1 something is damaged or was left out, and is named, 2 it could not \
be done; nothing was changed.";

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Checks every record of the journal, and everything that is made from it.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Verify),
    /// Writes agents, sessions, events and runs as lines of JSON, also from a damaged store. Files, values, secrets and
    /// environments are not in it: a backup holds all.
    #[command(after_help = exchange::EXPORT_EXAMPLES)]
    Export(exchange::Export),
    /// Imports the output of `export`. Existing streams, agents, harnesses and sessions are left unchanged and reported.
    #[command(after_help = exchange::IMPORT_EXAMPLES)]
    Import(exchange::Import),
    /// Makes everything anew that is made from the journal, such as lists of threads and runs.
    #[command(after_help = rebuild::EXAMPLES)]
    Rebuild,
    /// Rewrites the database without free pages, so that its file becomes smaller.
    #[command(after_help = compact::EXAMPLES)]
    Compact,
    /// Makes a backup of the store as it is at one moment, while the daemon works on.
    #[command(after_help = backup::EXAMPLES)]
    Backup(backup::Backup),
    /// Puts a backup in the place of the data directory, whole or not at all. What was there before is kept beside it.
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::Restore),
}

/// The data directory and the output format of a subcommand.
struct StoreCommand {
    directory: PathBuf,
    json: bool,
}

impl Store {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let place = StoreCommand {
            directory: data::directory(self.data)?,
            json: self.json,
        };
        match self.subcommand {
            Subcommand::Verify(verify) => verify.run(&place).await,
            Subcommand::Export(export) => export.run(&place).await,
            Subcommand::Import(import) => import.run(&place).await,
            Subcommand::Rebuild => rebuild::run(&place).await,
            Subcommand::Compact => compact::run(&place).await,
            Subcommand::Backup(backup) => backup.run(&place).await,
            Subcommand::Restore(restore) => restore.run(&place).await,
        }
    }
}

impl StoreCommand {
    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(&self.directory)
    }

    /// Opens the store read-only. A daemon may be running on it.
    async fn open_to_read(&self) -> anyhow::Result<SqliteStore> {
        self.has_store()?;
        Ok(SqliteStore::open_read_only(self.options()).await?)
    }

    /// Opens an existing store for writing. If a daemon uses it, the error names its process.
    async fn open_to_write(&self) -> anyhow::Result<SqliteStore> {
        let store = SqliteStore::open(self.options()).await;
        store.context("nothing was changed")
    }

    fn has_store(&self) -> anyhow::Result<()> {
        if !data::has_store(&self.directory)? {
            bail!(
                "there is no store in {}; name its directory with --data",
                printable(&self.directory)
            );
        }
        Ok(())
    }

    /// Prints a report, as JSON or as text.
    fn tell(&self, report: &Value, words: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        Ok(write_value(&mut stdout, self.json, report, words)?)
    }
}

/// Lists the findings and returns the exit code for them.
fn named(findings: &[Finding], what_next: &str) -> ExitCode {
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    for finding in findings {
        note(&finding.to_string());
    }
    note(what_next);
    ExitCode::from(FAILED)
}

fn as_json(findings: &[Finding]) -> Value {
    let findings = findings.iter().map(|finding| {
        let stream = finding.stream.as_ref().map(ToString::to_string);
        json!({"stream": stream, "seq": finding.seq, "what": finding.what})
    });
    findings.collect()
}

/// Converts a path to a string for JSON; invalid UTF-8 is replaced.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
