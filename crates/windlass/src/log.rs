//! The daemon's log on stderr.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The format of the log.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text per message.
    Text,
    /// One JSON object per line.
    Json,
}

/// Whether every line on stderr is JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Returns whether messages must be written as JSON log lines.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Starts logging at `level`. Libraries log only warnings and errors.
pub(crate) fn begin(level: LevelFilter, format: LogFormat) {
    let filter = Targets::new()
        .with_target("windlass", level)
        .with_default(level.min(LevelFilter::WARN));
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // An existing subscriber stays active.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init();
    if matches!(format, LogFormat::Json) {
        IS_JSON.store(true, Ordering::Relaxed);
        std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a task panicked")));
    }
}
