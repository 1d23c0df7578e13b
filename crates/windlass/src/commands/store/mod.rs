//! `windlass store`: checking, saving and restoring what the daemon keeps.

mod backup;
mod compact;
mod exchange;
mod progress;
mod rebuild;
mod restore;
mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_store::sqlite::Finding;
use windlass_store::{SqliteOptions, SqliteStore};

use crate::cli::{FAILED, note, printable};
use crate::data;
use crate::inert_json::json_line;

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
    word: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 all is well, 1 something is damaged or was left out, and is named, 2 it could not \
be done; nothing was changed.";

#[derive(Subcommand)]
enum Verb {
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

/// Where a word works, and how it speaks.
struct StoreCommand {
    directory: PathBuf,
    json: bool,
}

impl Store {
    pub(crate) async fn carry_out(self) -> anyhow::Result<ExitCode> {
        let place = StoreCommand {
            directory: data::directory(self.data)?,
            json: self.json,
        };
        match self.word {
            Verb::Verify(verify) => verify.carry_out(&place).await,
            Verb::Export(export) => export.carry_out(&place).await,
            Verb::Import(import) => import.carry_out(&place).await,
            Verb::Rebuild => rebuild::carry_out(&place).await,
            Verb::Compact => compact::run(&place).await,
            Verb::Backup(backup) => backup.carry_out(&place).await,
            Verb::Restore(restore) => restore.carry_out(&place).await,
        }
    }
}

impl StoreCommand {
    fn options(&self) -> SqliteOptions {
        SqliteOptions::new(&self.directory)
    }

    /// Opens the store for reading, whether a daemon works on it or not.
    async fn open_to_read(&self) -> anyhow::Result<SqliteStore> {
        self.has_store()?;
        Ok(SqliteStore::open_read_only(self.options()).await?)
    }

    /// Opens a store that is there for writing. A daemon that works on it is named.
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

    /// Says what was done: as JSON for a script, else in words.
    fn tell(&self, report: &Value, words: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        match self.json {
            true => writeln!(stdout, "{}", json_line(report)?)?,
            false => writeln!(stdout, "{words}")?,
        }
        Ok(())
    }
}

/// Names what is wrong, and returns the code that says so.
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

/// Returns a path as JSON can hold it.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
