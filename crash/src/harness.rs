//! Repeatedly starts the child, kills it, and checks the data that it left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::check::{CheckCounts, SeenState};
use crate::child::{ACKNOWLEDGED, DONE};
use crate::faults::{POINTS, REACHED};
use crate::random::Random;

/// A child that has not completed open work after this long is stuck, which is a failure.
const STUCK_TIMEOUT: Duration = Duration::from_secs(60);
/// A child that has not reached its fault point after this long is killed anyway.
const POINT_TIMEOUT: Duration = Duration::from_secs(1);

/// The plan of the harness.
#[derive(Debug, Clone)]
pub struct KillPlan {
    /// The program to start and kill.
    pub program: PathBuf,
    /// How often it is killed.
    pub kills: u64,
    /// Seed for moments, fault points and inputs.
    pub seed: u64,
}

/// Results of the test.
#[derive(Debug, Clone, Copy, Default)]
pub struct KillSummary {
    /// How often the child was killed.
    pub kills: u64,
    /// How many of those at a named point.
    pub at_points: u64,
    /// What was found in the end.
    pub figures: CheckCounts,
}

/// When a process is killed.
enum KillMoment {
    After(Duration),
    At { point: &'static str, nth: u64 },
    Never,
}

/// Kills per data directory. The checks read everything, so the directory must stay small.
const KILLS_PER_DIRECTORY: u64 = 25;

/// Runs a plan. The error names the violated invariant and the process in which it was found.
pub fn run(plan: &KillPlan, mut progress: impl FnMut(u64)) -> Result<KillSummary, String> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut random = Random::new(plan.seed);
    let mut summary = KillSummary::default();
    while summary.kills < plan.kills {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let kill_count = KILLS_PER_DIRECTORY.min(plan.kills - summary.kills);
        let mut seen_state = SeenState::default();
        for left in (0..=kill_count).rev() {
            let is_final = left == 0;
            let moment = if is_final {
                KillMoment::Never
            } else {
                choose_moment(summary.kills, &mut random)
            };
            let context =
                |what: String| format!("seed {}, after {} kills: {what}", plan.seed, summary.kills);
            run_child(plan, directory.path(), &moment, is_final, &mut seen_state)
                .map_err(context)?;
            let check = seen_state.check(directory.path(), is_final);
            let figures = tokio.block_on(check).map_err(context)?;
            // A kill during the first open leaves no data to inspect.
            if is_inspected(summary.kills) && !seen_state.is_empty() {
                run_inspections(plan, directory.path()).map_err(context)?;
                let again = seen_state.check(directory.path(), is_final);
                let again = tokio.block_on(again).map_err(context)?;
                if again != figures {
                    let changed = format!("the inspection changed {figures:?} to {again:?}");
                    return Err(context(changed));
                }
            }
            if is_final {
                summary.figures.add(figures);
            } else {
                summary.kills += 1;
                summary.at_points += u64::from(matches!(moment, KillMoment::At { .. }));
                progress(summary.kills);
            }
        }
    }
    Ok(summary)
}

/// After every eighth kill, other programs inspect the data before the child continues.
fn is_inspected(kills: u64) -> bool {
    kills % 8 == 5
}

/// Lets programs inspect the data, each in its own process that exits without closing anything.
fn run_inspections(plan: &KillPlan, directory: &Path) -> Result<(), String> {
    for options in [&["--read-only"][..], &[]] {
        let mut command = Command::new(&plan.program);
        command
            .arg("look")
            .arg("--data")
            .arg(directory)
            .args(options);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("the inspection cannot start: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the inspection {options:?} failed: {said}"));
        }
    }
    Ok(())
}

/// Fault points are used in turn; every other kill is at a random moment.
fn choose_moment(kills: u64, random: &mut Random) -> KillMoment {
    if kills.is_multiple_of(2) {
        let which = usize::try_from(kills / 2).unwrap_or(0) % POINTS.len();
        let point = POINTS[which];
        // A stream is claimed once per process, and rarely forked.
        let often = match point {
            "journal.before-claim" | "journal.before-fork" | "journal.after-fork" => 4,
            _ => 12,
        };
        KillMoment::At {
            point,
            nth: 1 + random.below(often),
        }
    } else {
        KillMoment::After(Duration::from_millis(5 + random.below(120)))
    }
}

fn run_child(
    plan: &KillPlan,
    directory: &Path,
    moment: &KillMoment,
    is_final: bool,
    seen_state: &mut SeenState,
) -> Result<(), String> {
    let mut command = Command::new(&plan.program);
    command.arg("child").arg("--data").arg(directory);
    command.arg("--seed").arg(plan.seed.to_string());
    command
        .arg("--inputs")
        .arg(if is_final { "0" } else { "1000000" });
    if let KillMoment::At { point, nth } = moment {
        command.arg("--stop-at").arg(format!("{point}:{nth}"));
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child =
        ChildGuard(child.map_err(|error| format!("the child does not start: {error}"))?);
    let lines = listen(child.0.stdout.take());
    let timeout = match moment {
        KillMoment::After(span) => *span,
        KillMoment::At { .. } => POINT_TIMEOUT,
        KillMoment::Never => STUCK_TIMEOUT,
    };
    let result = wait_for_child(&lines, timeout, seen_state);
    child.kill()?;
    // Output before the kill counts, even if it was not read yet.
    while let Ok(line) = lines.recv_timeout(STUCK_TIMEOUT) {
        record_acknowledged(&line, seen_state);
    }
    match (result, moment) {
        (WaitResult::TimedOut, KillMoment::Never) => Err("the child is stuck".to_owned()),
        (WaitResult::Exited, _) => Err("the child exited before it was done".to_owned()),
        _ => Ok(()),
    }
}

enum WaitResult {
    /// It reached its point, or is done.
    Done,
    /// It printed nothing more in time.
    TimedOut,
    /// It has exited.
    Exited,
}

fn wait_for_child(
    lines: &Receiver<String>,
    timeout: Duration,
    seen_state: &mut SeenState,
) -> WaitResult {
    let end = std::time::Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) if line.starts_with(REACHED) || line == DONE => return WaitResult::Done,
            Ok(line) => record_acknowledged(&line, seen_state),
            Err(RecvTimeoutError::Timeout) => return WaitResult::TimedOut,
            Err(RecvTimeoutError::Disconnected) => return WaitResult::Exited,
        }
    }
}

fn record_acknowledged(line: &str, seen_state: &mut SeenState) {
    let Some(rest) = line.strip_prefix(ACKNOWLEDGED) else {
        return;
    };
    if let Some((session, input)) = rest.trim_start().split_once(' ')
        && let Ok(session) = session.parse()
    {
        seen_state.acknowledge(session, input);
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
pub(crate) struct ChildGuard(pub(crate) Child);

impl ChildGuard {
    /// Ends the child with SIGKILL and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        killed
            .map(drop)
            .map_err(|error| format!("the child cannot be killed: {error}"))
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
