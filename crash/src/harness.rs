//! Repeatedly starts the child, kills it, and checks the data that it left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::chance::Chance;
use crate::check::{Figures, Memory};
use crate::child::{ACKNOWLEDGED, DONE};
use crate::faults::{POINTS, REACHED};

/// A child that has not completed open work after this long is stuck, which is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// A child that has not reached its fault point after this long is killed anyway.
const DETOUR: Duration = Duration::from_secs(1);

/// The plan of the harness.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program to start and kill.
    pub program: PathBuf,
    /// How often it is killed.
    pub kills: u64,
    /// Seed for moments, fault points and inputs.
    pub seed: u64,
}

/// Results of the test.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    /// How often the child was killed.
    pub kills: u64,
    /// How many of those at a named point.
    pub at_points: u64,
    /// What was found in the end.
    pub figures: Figures,
}

/// How a process is to end.
enum Death {
    After(Duration),
    At { point: &'static str, nth: u64 },
    Never,
}

/// Kills per data directory. The checks read everything, so the directory must stay small.
const DEATHS_OF_A_DIRECTORY: u64 = 25;

/// Runs a plan. The error names the violated invariant and the process in which it was found.
pub fn run(plan: &Plan, mut progress: impl FnMut(u64)) -> Result<Summary, String> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut chance = Chance::new(plan.seed);
    let mut summary = Summary::default();
    while summary.kills < plan.kills {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let deaths = DEATHS_OF_A_DIRECTORY.min(plan.kills - summary.kills);
        let mut memory = Memory::default();
        for left in (0..=deaths).rev() {
            let is_final = left == 0;
            let death = if is_final {
                Death::Never
            } else {
                choose(summary.kills, &mut chance)
            };
            let told =
                |what: String| format!("seed {}, after {} kills: {what}", plan.seed, summary.kills);
            live(plan, directory.path(), &death, is_final, &mut memory).map_err(told)?;
            let look = memory.check(directory.path(), is_final);
            let figures = tokio.block_on(look).map_err(told)?;
            // A kill during the first open leaves no data to inspect.
            if is_looked_at(summary.kills) && !memory.knows_nothing() {
                look_on(plan, directory.path()).map_err(told)?;
                let again = memory.check(directory.path(), is_final);
                let again = tokio.block_on(again).map_err(told)?;
                if again != figures {
                    let changed = format!("looking changed {figures:?} to {again:?}");
                    return Err(told(changed));
                }
            }
            if is_final {
                summary.figures.add(figures);
            } else {
                summary.kills += 1;
                summary.at_points += u64::from(matches!(death, Death::At { .. }));
                progress(summary.kills);
            }
        }
    }
    Ok(summary)
}

/// After every eighth kill, other programs inspect the data before the child continues.
fn is_looked_at(life: u64) -> bool {
    life % 8 == 5
}

/// Lets programs inspect the data, each in its own process that exits without closing anything.
fn look_on(plan: &Plan, directory: &Path) -> Result<(), String> {
    for how in [&["--read-only"][..], &[]] {
        let mut command = Command::new(&plan.program);
        command.arg("look").arg("--data").arg(directory).args(how);
        let looked = command.stdin(Stdio::null()).output();
        let looked = looked.map_err(|error| format!("nobody can look: {error}"))?;
        if !looked.status.success() {
            let said = String::from_utf8_lossy(&looked.stderr);
            return Err(format!("looking {how:?} fails: {said}"));
        }
    }
    Ok(())
}

/// Fault points are used in turn; every other kill is at a random moment.
fn choose(life: u64, chance: &mut Chance) -> Death {
    if life.is_multiple_of(2) {
        let which = usize::try_from(life / 2).unwrap_or(0) % POINTS.len();
        let point = POINTS[which];
        // A stream is claimed once per process, and rarely forked.
        let often = match point {
            "journal.before-claim" | "journal.before-fork" | "journal.after-fork" => 4,
            _ => 12,
        };
        Death::At {
            point,
            nth: 1 + chance.below(often),
        }
    } else {
        Death::After(Duration::from_millis(5 + chance.below(120)))
    }
}

fn live(
    plan: &Plan,
    directory: &Path,
    death: &Death,
    is_final: bool,
    memory: &mut Memory,
) -> Result<(), String> {
    let mut command = Command::new(&plan.program);
    command.arg("child").arg("--data").arg(directory);
    command.arg("--seed").arg(plan.seed.to_string());
    command
        .arg("--inputs")
        .arg(if is_final { "0" } else { "1000000" });
    if let Death::At { point, nth } = death {
        command.arg("--stop-at").arg(format!("{point}:{nth}"));
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = Killed(child.map_err(|error| format!("the child does not start: {error}"))?);
    let lines = listen(child.0.stdout.take());
    let patience = match death {
        Death::After(span) => *span,
        Death::At { .. } => DETOUR,
        Death::Never => PATIENCE,
    };
    let heard = hear(&lines, patience, memory);
    child.kill()?;
    // Output before the kill counts, even if it was not read yet.
    while let Ok(line) = lines.recv_timeout(PATIENCE) {
        note(&line, memory);
    }
    match (heard, death) {
        (Heard::Silence, Death::Never) => Err("the child is stuck".to_owned()),
        (Heard::End, _) => Err("the child ended by itself before it was done".to_owned()),
        _ => Ok(()),
    }
}

enum Heard {
    /// It reached its point, or is done.
    Enough,
    /// It printed nothing more in time.
    Silence,
    /// It has exited.
    End,
}

fn hear(lines: &Receiver<String>, patience: Duration, memory: &mut Memory) -> Heard {
    let end = std::time::Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) if line.starts_with(REACHED) || line == DONE => return Heard::Enough,
            Ok(line) => note(&line, memory),
            Err(RecvTimeoutError::Timeout) => return Heard::Silence,
            Err(RecvTimeoutError::Disconnected) => return Heard::End,
        }
    }
}

fn note(line: &str, memory: &mut Memory) {
    let Some(rest) = line.strip_prefix(ACKNOWLEDGED) else {
        return;
    };
    if let Some((session, input)) = rest.trim_start().split_once(' ')
        && let Ok(session) = session.parse()
    {
        memory.acknowledge(session, input);
    }
}

fn listen(stdout: Option<ChildStdout>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = stdout
            .into_iter()
            .flat_map(|stdout| BufReader::new(stdout).lines());
        for line in lines.map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// A child that does not outlive the harness.
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    /// Ends the child with SIGKILL and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        killed
            .map(drop)
            .map_err(|error| format!("the child cannot be killed: {error}"))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
