//! The command line: time until the first output.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::daemon::child::{self, DaemonProcess};
use crate::daemon::client::BenchClient;
use crate::report::{Bound, Report};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

const TRIES: usize = 20;
const THREADS: usize = 10_000;
const AT_ONCE: usize = 8;

pub fn run(mut report: Report) -> Result<Report> {
    report.progress("nothing yet: building the program");
    let binary = child::build()?;
    let home = tempfile::tempdir()?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(arguments).current_dir(home.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home.path());
        command.env("WINDLASS_DATA", home.path().join("data"));
        command
    };
    report.progress("windlass --version");
    let version = median(|| until_ended(command(&["--version"])))?;
    show(&mut report, "windlass --version", version, 20.0);
    report.progress("windlass run");
    let prompt = "What is in this directory?";
    let text = median(|| until_text(command(&["run", "--yes", prompt])))?;
    show(&mut report, "windlass run, to the first text", text, 150.0);

    report.progress(&format!("{THREADS} threads"));
    let daemon = DaemonProcess::start(&binary, home.path())?;
    make_threads(&daemon.address)?;
    drop(daemon);
    report.progress("windlass threads list");
    let list = median(|| until_ended(command(&["threads", "list"])))?;
    show(&mut report, "threads list of 10,000", list, 100.0);
    show_size(&mut report, &binary)?;
    Ok(report)
}

fn show(report: &mut Report, name: &str, took: Duration, most: f64) {
    report.figure(name, took.as_secs_f64() * 1e3, "ms", Bound::AtMost(most));
}

fn show_size(report: &mut Report, binary: &Path) -> Result<()> {
    let bytes = std::fs::metadata(binary)?.len() as f64;
    report.figure("size of the program", bytes / 1e6, "MB", Bound::None);
    Ok(())
}

fn median(mut measure: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    // The first run fills the disk cache.
    measure()?;
    let mut took = Vec::new();
    for _ in 0..TRIES {
        took.push(measure()?);
    }
    took.sort_unstable();
    Ok(took[TRIES / 2])
}

fn until_ended(mut command: Command) -> Result<Duration> {
    let begun = Instant::now();
    let done = command.stdin(Stdio::null()).output()?;
    let took = begun.elapsed();
    if done.status.success() && !done.stdout.is_empty() {
        Ok(took)
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into())
    }
}

/// Measures the time until the first byte of output, and waits until the command exits.
fn until_text(mut command: Command) -> Result<Duration> {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let stderr = child.stderr.take().ok_or("no stderr")?;
    let (send, received) = mpsc::channel();
    let watchers = [watch(stdout, send.clone()), watch(stderr, send)];
    let first = received
        .recv()
        .map_err(|_| "`windlass run` printed nothing")?;
    let status = child.wait()?;
    for watcher in watchers {
        watcher.join().map_err(|_| "a reader failed")??;
    }
    if status.success() {
        Ok(first - begun)
    } else {
        Err("`windlass run` failed".into())
    }
}

fn watch(
    mut from: impl Read + Send + 'static,
    send: mpsc::Sender<Instant>,
) -> std::thread::JoinHandle<std::io::Result<()>> {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while from.read(&mut bytes)? > 0 {
            // Only the first output is measured.
            let _ = send.send(Instant::now());
        }
        Ok(())
    })
}

fn make_threads(address: &str) -> Result<()> {
    let client = BenchClient::new(address)?;
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    executor.block_on(async {
        let mut clients = JoinSet::new();
        for worker in 0..AT_ONCE {
            let client = client.clone();
            clients.spawn(async move {
                for n in 0..THREADS / AT_ONCE {
                    let title = format!("load {n} of {worker}");
                    client.thread_with(&json!({ "title": title })).await?;
                }
                Ok::<_, Error>(())
            });
        }
        while let Some(done) = clients.join_next().await {
            done??;
        }
        Ok(())
    })
}
