//! A stub agent. It speaks Claude's stream-json, or ACP with `--acp`, and executes the orders in its prompts, separated by semicolons, such as `say
//! hello; tool t1; fork 600; die`. `STUB_START` contains its orders before the first prompt.

mod wire;

use std::io::{self, BufRead, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use wire::{StubOutcome, StubWire};

/// The ID of the first file request.
const READ_IDS: u32 = 8;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--version") {
        let _ = writeln!(io::stdout(), "1.2.3 (Stub)");
        return ExitCode::SUCCESS;
    }
    for order in orders(&std::env::var("STUB_START").unwrap_or_default()) {
        if let Some(code) = begin(&order) {
            return code;
        }
    }
    let mut wire = StubWire::new(&arguments);
    match serve(&mut wire) {
        Ok(code) => code,
        // The reader is gone.
        Err(_) => ExitCode::from(2),
    }
}

/// An order and its argument.
type Order = (String, String);

fn orders(text: &str) -> Vec<Order> {
    let orders = text
        .split(';')
        .map(str::trim)
        .filter(|order| !order.is_empty());
    orders
        .map(|order| {
            let (verb, rest) = order.split_once(' ').unwrap_or((order, ""));
            (verb.to_owned(), rest.to_owned())
        })
        .collect()
}

/// Executes an order before the first output; `Some` ends the program.
fn begin((verb, rest): &Order) -> Option<ExitCode> {
    match verb.as_str() {
        "ignore" => ignore_signals(),
        "abort-times" => {
            // Each start decrements the number in a file of the working directory.
            let left = std::fs::read_to_string("aborts-left").unwrap_or_default();
            let left: u32 = left.trim().parse().unwrap_or(0);
            if left > 0 {
                let _ = std::fs::write("aborts-left", (left - 1).to_string());
                std::process::abort();
            }
        }
        "abort-on-resume" if std::env::args().any(|argument| argument == "--resume") => {
            std::process::abort()
        }
        "count-starts" => {
            let count = std::fs::read_to_string("starts").unwrap_or_default();
            let _ = std::fs::write("starts", format!("{count}x"));
        }
        "abort" => std::process::abort(),
        "stall" => stall(),
        "close-output" => close_output(),
        _ => return common(verb, rest),
    }
    None
}

/// Executes an order that is independent of the protocol; `Some` ends the program.
fn common(verb: &str, rest: &str) -> Option<ExitCode> {
    match verb {
        "complain" => {
            let _ = writeln!(io::stderr(), "{rest}");
        }
        "complain-much" => {
            let line = "x".repeat(1023);
            for _ in 0..rest.parse().unwrap_or(0) {
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
        "garbage" => {
            let _ =
                io::stdout().write_all(b"no json at all\n\xff\xfe\x00\n{\"a\":\n[1,2]\nnull\n\n");
        }
        "long" => {
            let line = vec![b'x'; rest.parse().unwrap_or(0)];
            let _ = io::stdout().write_all(&line);
            let _ = io::stdout().write_all(b"\n");
        }
        "fork" => fork(rest),
        "pause" => std::thread::sleep(Duration::from_millis(rest.parse().unwrap_or(0))),
        "stall" => stall(),
        "die" => std::process::abort(),
        "exit" => return Some(ExitCode::from(rest.parse().unwrap_or(0))),
        _ => {}
    }
    None
}

/// Starts a child in this session and one in its own session; both outlive us unless they are killed.
fn fork(seconds: &str) {
    for words in [&["sleep", seconds][..], &["setsid", "sleep", seconds][..]] {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        let _ = command.spawn();
    }
}

/// Ignored signals stay ignored across `exec`.
fn ignore_signals() {
    use std::os::unix::process::CommandExt;
    let Ok(own) = std::env::current_exe() else {
        return;
    };
    let start = std::env::var("STUB_START").unwrap_or_default();
    let _ = Command::new("/bin/sh")
        .args(["-c", "trap '' HUP INT TERM; exec \"$0\" \"$@\""])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env("STUB_START", start.replace("ignore", ""))
        .exec();
}

/// Continues without output, by replacing this process with another program.
fn close_output() {
    use std::os::unix::process::CommandExt;
    let _ = Command::new("/bin/sh")
        .args(["-c", "exec sleep 3600 >&-"])
        .exec();
}

fn stall() {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn serve(wire: &mut StubWire) -> io::Result<ExitCode> {
    if let Some(code) = wire.refuse()? {
        return Ok(ExitCode::from(code));
    }
    let stdin = io::stdin();
    let mut lines = stdin.lock().lines();
    while let Some(line) = lines.next() {
        let Some(prompt) = wire.read(&line?)? else {
            continue;
        };
        wire.begin_turn()?;
        let mut end = StubOutcome::Good;
        for (verb, rest) in orders(&prompt) {
            match verb.as_str() {
                "say" => wire.say(&rest)?,
                "think" => wire.think(&rest)?,
                "flood" => {
                    let piece = "y".repeat(1024);
                    for _ in 0..rest.parse().unwrap_or(0) {
                        wire.piece(&piece)?;
                    }
                }
                "tool" => wire.tool(&rest)?,
                "ask" => {
                    wire.ask()?;
                    let answer = next(&mut lines)?;
                    wire.say(&wire.answered(&answer))?;
                }
                "read" => {
                    wire.request_read(READ_IDS, &rest)?;
                    let answer = next(&mut lines)?;
                    wire.say(&answer)?;
                }
                "request-reads" => {
                    let (count, path) = rest.split_once(' ').unwrap_or_default();
                    for id in 0..count.parse().unwrap_or(0) {
                        wire.request_read(READ_IDS + id, path)?;
                    }
                }
                "count-answers" => {
                    let mut good = 0;
                    for _ in 0..rest.parse().unwrap_or(0) {
                        good += u32::from(next(&mut lines)?.contains("\"result\""));
                    }
                    wire.say(&format!("{good} good answers"))?;
                }
                "retry" => wire.retry(&rest)?,
                "fail" => end = StubOutcome::Failed(rest.parse().unwrap_or(500)),
                "limited" => end = StubOutcome::Limited(rest.parse().ok()),
                "cost" => wire.cost = rest.parse().unwrap_or(0.0),
                "hang" => {
                    wire.wait_for_interrupt(&mut lines)?;
                    end = StubOutcome::Interrupted;
                }
                // A turn without an end.
                "forget" => end = StubOutcome::None,
                verb => {
                    if let Some(code) = common(verb, &rest) {
                        return Ok(code);
                    }
                }
            }
        }
        wire.end_turn(&end)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn next(lines: &mut impl Iterator<Item = io::Result<String>>) -> io::Result<String> {
    lines.next().unwrap_or_else(|| Ok(String::new()))
}
