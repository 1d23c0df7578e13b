//! `windlass store export` and `windlass store import`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::json;
use tempfile::NamedTempFile;
use windlass_store::SqliteError;
use windlass_store::sqlite::ImportedRecords;

use super::progress::{ProgressReporter, State};
use super::{StoreContext, as_json, report_findings};
use crate::cli::{note, printable};
use crate::config::FILE;
use crate::data;

pub(super) const EXPORT_EXAMPLES: &str = "Examples:\n  windlass store export all.jsonl\n  windlass store export | gzip > all.jsonl.gz\n\n\
Unreadable records are named, the others are written, and the exit code is 1.";
pub(super) const IMPORT_EXAMPLES: &str = "Examples:\n  windlass store import all.jsonl\n  gunzip < all.jsonl.gz | windlass store \
import --data /srv/windlass -\n\nIt needs exclusive access to the data directory: stop the daemon first.";

#[derive(Args)]
pub(super) struct ExportCommand {
    /// File to create; `-` is standard output.
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Args)]
pub(super) struct ImportCommand {
    /// File to read; `-` is standard input.
    file: PathBuf,
}

impl ExportCommand {
    pub(super) async fn run(self, context: &StoreContext) -> anyhow::Result<ExitCode> {
        let store = context.open_to_read().await?;
        let is_stdout = self.file == Path::new("-");
        let cannot = || format!("cannot write {}", printable(&self.file));
        let mut temporary = None;
        let output: Box<dyn Write + Send> = if is_stdout {
            Box::new(io::stdout())
        } else {
            let file = temporary.insert(temporary_file(&self.file)?);
            Box::new(file.as_file().try_clone().with_context(cannot)?)
        };
        let progress = ProgressReporter::start("exporting bytes:");
        let counted = CountingStream {
            inner: output,
            state: progress.state(),
        };
        let (_, report) = store.export(counted).await?;
        drop(progress);
        if let Some(file) = temporary {
            file.as_file().sync_all().with_context(cannot)?;
            // A file that was created in the meantime is not replaced.
            let published = file.persist_noclobber(&self.file);
            published.map_err(|it| it.error).with_context(cannot)?;
        }
        let text = format!("{} streams, {} records", report.streams, report.records);
        let json = json!({
            "streams": report.streams,
            "records": report.records,
            "left_out": report.left_out,
            "findings": as_json(&report.findings),
        });
        match (is_stdout, context.json) {
            (true, true) => note(json.to_string()),
            (true, false) => note(&text),
            (false, _) => context.print(&json, &text)?,
        }
        if report.left_out > 0 && !context.json {
            note(
                "tasks, automations and fleet runs are omitted, their threads are included; `windlass store backup` contains everything",
            );
        }
        Ok(report_findings(
            &report.findings,
            "the other records were written; `windlass store import --data NEW_DIRECTORY` imports the undamaged streams and names \
             the others, which only a backup can restore (`windlass store restore`)",
        ))
    }
}

impl ImportCommand {
    pub(super) async fn run(self, context: &StoreContext) -> anyhow::Result<ExitCode> {
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
        let existed = context.directory.is_dir();
        let had_store = data::has_store(&context.directory)?;
        data::create(&context.directory)?;
        let store = context.open_to_write().await?;
        let progress = ProgressReporter::start("importing bytes:");
        progress.state().set(0, total);
        let counted = CountingStream {
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
                    remove_created(&context.directory, existed);
                }
                return Err(self.import_error(error));
            }
        };
        let kinds = [
            ("harnesses", report.harnesses),
            ("agents", report.agents),
            ("sessions", report.sessions),
        ];
        let text = std::iter::once(format!(
            "{} streams and {} records were imported",
            report.streams, report.records
        ));
        let imported = kinds
            .iter()
            .filter(|(_, counts)| *counts != ImportedRecords::default());
        let text = text.chain(imported.map(|(name, counts)| {
            let ImportedRecords {
                inserted,
                identical,
                different,
            } = counts;
            format!("{name}: {inserted} inserted, {identical} identical, {different} different and left unchanged")
        }));
        let text = text.collect::<Vec<_>>().join("\n");
        let mut json = json!({"streams": report.streams, "records": report.records, "findings": as_json(&report.findings)});
        for (name, counts) in kinds {
            json[name] = json!({"inserted": counts.inserted, "identical": counts.identical, "different": counts.different});
        }
        context.print(&json, &text)?;
        Ok(report_findings(
            &report.findings,
            "these were omitted; the others were imported. Existing streams and records are never overwritten",
        ))
    }

    fn import_error(&self, error: SqliteError) -> anyhow::Error {
        match error {
            SqliteError::Import { line, why } if why.starts_with("EOF while parsing") => {
                anyhow!(
                    "{} ends in the middle of line {line}; nothing was imported. Copy it again, or export it again",
                    printable(&self.file)
                )
            }
            error => anyhow::Error::new(error).context("nothing was imported"),
        }
    }
}

/// Removes the empty store of a failed import, and its directory if the import created it. Files of other programs are not removed.
fn remove_created(directory: &Path, existed: bool) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let is_of_store = name.to_string_lossy().starts_with("windlass.") && name != FILE;
        if is_of_store || !existed && name == ".gitignore" {
            let _ = fs::remove_file(entry.path());
        }
    }
    if !existed {
        let _ = fs::remove_dir(directory);
    }
}

/// Creates a private temporary file next to `path`, which must not exist.
fn temporary_file(path: &Path) -> anyhow::Result<NamedTempFile> {
    if path.symlink_metadata().is_ok() {
        bail!("{} exists already; name a new file", printable(path));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    let file = builder
        .prefix(&format!(".{name}-"))
        .tempfile_in(directory.unwrap_or(Path::new(".")));
    file.with_context(|| format!("cannot write {}", printable(path)))
}

/// Counts the bytes that pass through.
struct CountingStream<T> {
    inner: T,
    state: Arc<State>,
}

impl<T: Write> Write for CountingStream<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.state.add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for CountingStream<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.state.add(read as u64);
        Ok(read)
    }
}
