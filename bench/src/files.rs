//! The memory file system: writing, listing and searching many files.

use std::sync::Arc;
use std::time::Instant;

use windlass_core::{AgentLoopError, SessionFileSystem, SessionId};
use windlass_runtime::InMemorySessionFileStore;

use crate::report::{Bound, Report};

const FILES: usize = 100_000;
const PER_DIRECTORY: usize = 100;
const LOOKS: u32 = 200;

pub fn run(mut report: Report) -> Result<Report, AgentLoopError> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let tokio =
        tokio.map_err(|error| AgentLoopError::config(format!("no async runtime: {error}")))?;
    tokio.block_on(measure(&mut report))?;
    Ok(report)
}

async fn measure(report: &mut Report) -> Result<(), AgentLoopError> {
    let files: Arc<dyn SessionFileSystem> = Arc::new(InMemorySessionFileStore::new());
    let (session, other) = (SessionId::new(), SessionId::new());
    report.progress(&format!("{FILES} files"));

    let started = Instant::now();
    for n in 0..FILES {
        let hit = if n % 100 == 0 { "needle" } else { "straw" };
        let content = format!("line one of file {n}\nline two with {hit}\nline three\n");
        files
            .write_file(session, &path(n), &content, "text")
            .await?;
    }
    let written = started.elapsed().as_secs_f64() * 1e3;
    report.figure("write 100,000 files", written, "ms", Bound::AtMost(314.0));

    let started = Instant::now();
    for n in 0..FILES {
        files.read_file(session, &path(n)).await?;
    }
    report.figure(
        "read 100,000 files",
        started.elapsed().as_secs_f64() * 1e3,
        "ms",
        Bound::None,
    );

    let among_many = look(&files, session, "/d7").await?;
    report.figure(
        "list 100 entries among 100,000 files",
        among_many,
        "us",
        Bound::AtMost(100.0),
    );

    let started = Instant::now();
    let hits = files.grep_files(session, "needle", None).await?.len();
    let searched = started.elapsed().as_secs_f64() * 1e3;
    report.figure(
        "search 100,000 files, 1 % hit",
        searched,
        "ms",
        Bound::AtMost(16.5),
    );
    report.figure(
        "hits of that search",
        hits as f64,
        "lines",
        Bound::AtLeast(1.0),
    );

    files
        .write_file(other, "/d7/only.txt", "alone", "text")
        .await?;
    let alone: Arc<dyn SessionFileSystem> = Arc::new(InMemorySessionFileStore::new());
    alone
        .write_file(other, "/d7/only.txt", "alone", "text")
        .await?;
    let beside = look(&files, other, "/d7").await?;
    let lonely = look(&alone, other, "/d7").await?;
    report.figure(
        "list beside another session's files / alone",
        beside / lonely,
        "ratio",
        Bound::AtMost(3.0),
    );
    Ok(())
}

fn path(n: usize) -> String {
    format!("/d{}/f{n}.txt", n / PER_DIRECTORY)
}

/// Returns how long a listing takes, in microseconds: the best of many, because of other load on the machine.
async fn look(
    files: &Arc<dyn SessionFileSystem>,
    session: SessionId,
    path: &str,
) -> Result<f64, AgentLoopError> {
    let mut best = f64::INFINITY;
    for _ in 0..LOOKS {
        let started = Instant::now();
        files.list_directory(session, path).await?;
        best = best.min(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(best)
}
