//! `windlass store export` and `windlass store import`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::json;
use uuid::Uuid;
use windlass_store::SqliteError;
use windlass_store::sqlite::ImportedRecords;

use super::progress::{Progress, State};
use super::{StoreCommand, as_json, named};
use crate::cli::{note, printable};
use crate::config::FILE;
use crate::data;

pub(super) const EXPORT_EXAMPLES: &str = "Examples:\n  windlass store export all.jsonl\n  windlass store export | gzip > all.jsonl.gz\n\n\
What cannot be read is named, the rest is written, and the exit code is 1.";
pub(super) const IMPORT_EXAMPLES: &str = "Examples:\n  windlass store import all.jsonl\n  gunzip < all.jsonl.gz | windlass store \
import --data /srv/windlass -\n\nIt needs the data directory for itself: stop the daemon first.";

#[derive(Args)]
pub(super) struct Export {
    /// The file to write, which must not be there yet; `-` is stdout.
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Args)]
pub(super) struct Import {
    /// The file to read; `-` is stdin.
    file: PathBuf,
}

impl Export {
    pub(super) async fn run(self, place: &StoreCommand) -> anyhow::Result<ExitCode> {
        let store = place.open_to_read().await?;
        let is_stdout = self.file == Path::new("-");
        let target = if is_stdout {
            Target::Stdout(io::stdout())
        } else {
            Target::File(UnnamedFile::beside(&self.file)?)
        };
        let progress = Progress::of("exporting bytes:");
        let counted = Counted {
            inner: target,
            state: progress.state(),
        };
        let (written, report) = store.export(counted).await?;
        drop(progress);
        if let Target::File(fresh) = written.inner {
            fresh.keep(&self.file)?;
        }
        let words = format!("{} streams, {} records", report.streams, report.records);
        let said = json!({
            "streams": report.streams,
            "records": report.records,
            "left_out": report.left_out,
            "findings": as_json(&report.findings),
        });
        match (is_stdout, place.json) {
            (true, true) => note(&said.to_string()),
            (true, false) => note(&words),
            (false, _) => place.tell(&said, &words)?,
        }
        if report.left_out > 0 && !place.json {
            note(
                "the queues of tasks, automations and fleets are not in it, their threads are; `windlass store backup` keeps all",
            );
        }
        Ok(named(
            &report.findings,
            "the rest was written; `windlass store import --data NEW_DIRECTORY` takes in the streams that are whole and names the \
             others, which only a backup still has (`windlass store restore`)",
        ))
    }
}

impl Import {
    pub(super) async fn run(self, place: &StoreCommand) -> anyhow::Result<ExitCode> {
        let cannot = || format!("cannot read {}", printable(&self.file));
        let (lines, total): (Box<dyn Read + Send>, u64) = if self.file == Path::new("-") {
            (Box::new(io::stdin()), 0)
        } else {
            let file = File::open(&self.file).with_context(cannot)?;
            let bytes = file.metadata().with_context(cannot)?.len();
            (Box::new(file), bytes)
        };
        let mut lines = BufReader::new(lines);
        // The header is checked before anything is created.
        let first = lines.fill_buf().with_context(cannot)?;
        if !first.starts_with(b"{\"windlass_export\"") {
            bail!(
                "{} is not an export of Windlass; nothing was changed",
                printable(&self.file)
            );
        }
        let was_there = place.directory.is_dir();
        let had_store = data::has_store(&place.directory)?;
        data::make(&place.directory)?;
        let store = place.open_to_write().await?;
        let progress = Progress::of("importing bytes:");
        progress.state().set(0, total);
        let counted = Counted {
            inner: lines,
            state: progress.state(),
        };
        let imported = store.import(BufReader::new(counted)).await;
        drop(progress);
        store.close().await;
        let report = match imported {
            Ok(report) => report,
            Err(error) => {
                if !had_store {
                    remove_made(&place.directory, was_there);
                }
                return Err(self.not_taken_in(error));
            }
        };
        let kinds = [
            ("harnesses", report.harnesses),
            ("agents", report.agents),
            ("sessions", report.sessions),
        ];
        let words = std::iter::once(format!(
            "{} streams and {} records were imported",
            report.streams, report.records
        ));
        let imported = kinds
            .iter()
            .filter(|(_, counts)| *counts != ImportedRecords::default());
        let words = words.chain(imported.map(|(name, counts)| {
            let ImportedRecords {
                inserted,
                identical,
                different,
            } = counts;
            format!("{name}: {inserted} inserted, {identical} identical, {different} different and left unchanged")
        }));
        let words = words.collect::<Vec<_>>().join("\n");
        let mut said = json!({"streams": report.streams, "records": report.records, "findings": as_json(&report.findings)});
        for (name, counts) in kinds {
            said[name] = json!({"inserted": counts.inserted, "identical": counts.identical, "different": counts.different});
        }
        place.tell(&said, &words)?;
        Ok(named(
            &report.findings,
            "these were left out; the rest was imported. Existing streams and records are never overwritten",
        ))
    }
}

impl Import {
    fn not_taken_in(&self, error: SqliteError) -> anyhow::Error {
        match error {
            SqliteError::Import { line, why } if why.starts_with("EOF while parsing") => anyhow!(
                "{} is cut off in line {line}; nothing was taken in. Copy it again, or export it again",
                printable(&self.file)
            ),
            error => anyhow::Error::new(error).context("nothing was taken in"),
        }
    }
}

/// Removes the empty store of a failed import, and its directory if the import created it. Files of other programs are not removed.
fn remove_made(directory: &Path, was_there: bool) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let is_of_store = name.to_string_lossy().starts_with("windlass.") && name != FILE;
        if is_of_store || !was_there && name == ".gitignore" {
            let _ = fs::remove_file(entry.path());
        }
    }
    if !was_there {
        let _ = fs::remove_dir(directory);
    }
}

/// The destination of an export.
enum Target {
    Stdout(io::Stdout),
    File(UnnamedFile),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(fresh) => fresh.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(fresh) => fresh.file.flush(),
        }
    }
}

/// A private file without a name until it is complete.
struct UnnamedFile {
    file: File,
    path: PathBuf,
}

impl UnnamedFile {
    fn beside(file: &Path) -> anyhow::Result<Self> {
        if file.symlink_metadata().is_ok() {
            bail!(
                "{} is there already; name a file that is not",
                printable(file)
            );
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let path = file.with_file_name(format!(".{name}-{}", Uuid::new_v4().as_simple()));
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = made.with_context(|| format!("cannot write {}", printable(file)))?;
        Ok(Self { file, path })
    }

    fn keep(self, as_file: &Path) -> anyhow::Result<()> {
        let cannot = || format!("cannot write {}", printable(as_file));
        self.file.sync_all().with_context(cannot)?;
        // Unlike a rename, a hard link does not replace a file that was created in the meantime.
        fs::hard_link(&self.path, as_file).with_context(cannot)
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Counts the bytes that pass through.
struct Counted<T> {
    inner: T,
    state: Arc<State>,
}

impl<T: Write> Write for Counted<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.state.add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Counted<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.state.add(read as u64);
        Ok(read)
    }
}
