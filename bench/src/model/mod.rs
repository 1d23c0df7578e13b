//! Turns with a model over HTTP, compared with a bare loop that makes the same requests with the same client library.
//!
//! The fake server is a separate process, so that its CPU time counts for neither side.

mod bare;
mod cancel;
mod durable;
mod memory;
mod server;
mod sessions;
mod turns;

use std::fmt;
use std::process::ExitCode;

use windlass_core::AgentLoopError;
use windlass_testkit::Wire;

use crate::report::Report;

type Result<T> = std::result::Result<T, AgentLoopError>;

pub fn run(mut report: Report) -> Result<Report> {
    one_thread()?.block_on(turns::measure(&mut report))?;
    let mut report = durable(report)?;
    let all_threads = runtime()?;
    all_threads.block_on(memory::measure(&mut report))?;
    all_threads.block_on(cancel::measure(&mut report))?;
    Ok(report)
}

/// Measures new sessions on disk alone.
pub fn durable(mut report: Report) -> Result<Report> {
    one_thread()?.block_on(durable::measure(&mut report))?;
    Ok(report)
}

fn one_thread() -> Result<tokio::runtime::Runtime> {
    // One OS thread: the benchmark compares work, not the scheduling of threads.
    let one_thread = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    one_thread.map_err(|error| broke("no async runtime", error))
}

/// Runs one of the child processes of [`run`] if the arguments select one.
pub fn part(words: &[&str]) -> Option<ExitCode> {
    let done = match words {
        [server::WORD, api, script] => server::serve(api, script),
        [memory::WORD, api, side, body] => {
            memory::hold(api, side, body).map(|weight| println!("{weight}"))
        }
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-bench: {error}");
            ExitCode::FAILURE
        }
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    tokio.map_err(|error| broke("no async runtime", error))
}

fn broke(what: &str, error: impl fmt::Display) -> AgentLoopError {
    AgentLoopError::config(format!("{what}: {error}"))
}

const fn name(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAi => "openai",
        Wire::OpenAiChat => "openai-chat",
        Wire::Anthropic => "anthropic",
        Wire::Gemini => "gemini",
    }
}

fn wire(wanted: &str) -> Result<Wire> {
    let mut known = Wire::ALL.into_iter();
    known
        .find(|wire| name(*wire) == wanted)
        .ok_or_else(|| AgentLoopError::config(format!("unknown API `{wanted}`")))
}
