//! The reference: the stub agent without a runtime. It gets a line, and its lines are read and parsed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::Result;
use crate::machine;

/// A stub agent that takes one turn after the other. Dropping it kills it.
pub struct Stub {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
}

/// Durations and size of a turn.
pub struct Took {
    /// Until the first text.
    pub first: Duration,
    pub whole: Duration,
    /// Bytes of text.
    pub bytes: usize,
}

impl Stub {
    pub fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["--session-id", "00000000-0000-7000-8000-000000000000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("the stub has no stdin")?;
        let lines = child.stdout.take().ok_or("the stub has no stdout")?;
        Ok(Self {
            child,
            input,
            lines: BufReader::new(lines),
        })
    }

    pub fn turn(&mut self, prompt: &str) -> Result<Took> {
        let started = Instant::now();
        let message = json!({"role": "user", "content": prompt});
        let line = json!({"type": "user", "message": message});
        writeln!(self.input, "{line}")?;
        let (mut first, mut bytes) = (None, 0);
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line)? == 0 {
                return Err("the stub ended".into());
            }
            let said: Value = serde_json::from_str(&line)?;
            let piece = said.pointer("/event/delta/text").and_then(Value::as_str);
            if let Some(piece) = piece {
                first.get_or_insert_with(|| started.elapsed());
                bytes += piece.len();
            }
            if said["type"] == "result" {
                let whole = started.elapsed();
                let first = first.unwrap_or(whole);
                return Ok(Took {
                    first,
                    whole,
                    bytes,
                });
            }
        }
    }

    pub fn cpu_time(&self) -> Duration {
        machine::cpu_time_of(self.child.id())
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
