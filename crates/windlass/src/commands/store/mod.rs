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
use crate::commands::data_options::DataOptions;
use crate::data;
use crate::inert_json::write_value;

/// Checks, backs up, restores and compacts the daemon's data. `verify`, `export` and `backup` work while a daemon runs; `import`,
/// `rebuild`, `compact` and `restore` need exclusive access to the data directory.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct StoreCommand {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 something is damaged or was omitted, which the output names, 2 the \
command could not run and changed nothing.";

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Checks every record of the journal and all data derived from it.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Verify),
    /// Writes agents, sessions, events and runs as lines of JSON, also from a damaged store. Files, values, secrets and
    /// environments are omitted; a backup contains everything.
    #[command(after_help = exchange::EXPORT_EXAMPLES)]
    Export(exchange::ExportCommand),
    /// Imports the output of `export`. Existing streams, agents, harnesses and sessions are left unchanged and reported.
    #[command(after_help = exchange::IMPORT_EXAMPLES)]
    Import(exchange::ImportCommand),
    /// Rebuilds all data derived from the journal, such as lists of threads and runs.
    #[command(after_help = rebuild::EXAMPLES)]
    Rebuild,
    /// Rewrites the database without free pages, so that its file becomes smaller.
    #[command(after_help = compact::EXAMPLES)]
    Compact,
    /// Creates a consistent backup of the store, also while the daemon runs.
    #[command(after_help = backup::EXAMPLES)]
    Backup(backup::Backup),
    /// Replaces the data directory with a backup, completely or not at all. The previous directory is renamed.
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::Restore),
}

/// The data directory and the output format of a subcommand.
struct StoreContext {
    directory: PathBuf,
    json: bool,
}

impl StoreCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let context = StoreContext {
            directory: self.options.directory()?,
            json: self.options.json,
        };
        match self.subcommand {
            Subcommand::Verify(verify) => verify.run(&context).await,
            Subcommand::Export(export) => export.run(&context).await,
            Subcommand::Import(import) => import.run(&context).await,
            Subcommand::Rebuild => rebuild::run(&context).await,
            Subcommand::Compact => compact::run(&context).await,
            Subcommand::Backup(backup) => backup.run(&context).await,
            Subcommand::Restore(restore) => restore.run(&context).await,
        }
    }
}

impl StoreContext {
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
    fn print(&self, report: &Value, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        Ok(write_value(&mut stdout, self.json, report, text)?)
    }
}

/// Prints the findings and returns their exit code.
fn report_findings(findings: &[Finding], what_next: &str) -> ExitCode {
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    for finding in findings {
        note(finding.to_string());
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
