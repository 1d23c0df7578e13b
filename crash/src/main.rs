//! The command-line program for the crash harness and its child.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command that people and the harness read"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use windlass_crash::{
    backends, child, children, config, faults, feed, fleet, harness, hostile, inspect, soak, tasks,
    undo,
};
use windlass_tools::Confinement;

const HELP: &str = "\
Kills a working runtime with SIGKILL, at random moments and at named points, and checks what it left behind.

With `feed`, a process with 64 writers is killed while three readers follow the feed of all streams from their cursors.

With `backends`, the daemon is killed while an external agent executes a turn: no process of the agent remains, every turn
completes, and no prompt is sent twice without a notice. The daemon is the program `windlass` next to this one.

With `undo`, the daemon is killed while a scripted model edits a file, runs a command in the sandbox and needs an approval, and while this
is undone: every turn ends once, nothing runs twice, files and conversation are restored together, and the user's edits are preserved.

With `fleet`, the daemon is killed during a run of many tasks, half of the workers with an external agent: every task ends once,
attempts are counted correctly, and no prompt is repeated without a notice.

With `children`, a process is killed while twenty agents of one turn share a budget of one dollar: usage never exceeds the budget by more
than the reservation of one call, and all sums agree.

With `config`, the daemon is killed and restarted while a backend, a model, a directory and the token file are removed and restored at
random: a job with missing requirements is held, no job ends while its turn is open, and each completes once everything is restored.

With `tasks`, the daemon is killed while clients with three tokens queue tasks and its workers run them: no task is lost or duplicated,
each ends once with one turn per attempt, and no token is served much better than another.

With `soak`, nothing is killed: random sessions are created and removed on a store with retention, and memory, log and disk must level off.

With `hostile`, commands first try to escape: to outlive a command, its time limit, an interrupt and a killed host by endless forking, to take
the port of a killed host, and to reach shared memory and the user's home. Then a model calls tools with hostile values next to honest sessions:
those complete, nothing outside the root changes, and memory and descriptors level off.

Usage: windlass-crash [--kills N] [--seed S]
       windlass-crash feed [--kills N] [--seed S]
       windlass-crash backends [--kills N] [--seed S]
       windlass-crash undo [--kills N] [--seed S]
       windlass-crash fleet [--tasks N] [--workers N] [--kills N] [--seed S]
       windlass-crash children [--kills N] [--seed S]
       windlass-crash config [--kills N] [--seed S]
       windlass-crash tasks [--tasks N] [--workers N] [--kills N] [--seed S]
       windlass-crash soak [--seconds N] [--seed S]
       windlass-crash hostile [--seconds N] [--seed S] [--sandbox bubblewrap|landlock] [--escapes-only]

Options:
  --kills N     number of kills (default 200; with `backends` and `config` 100, with `fleet` 50)
  --tasks N     number of tasks (default 10000; with `fleet` 200)
  --workers N   maximum number of tasks that run at once, 1 to 8 (default 8)
  --seconds N   duration (default 1800)
  --seed S      selects moments, fault points and inputs (default: the time); printed, so that a failure can be repeated
  --help        print this text

Examples:
  cargo xtask crash
  cargo xtask crash --kills 50 --seed 7
  cargo xtask crash feed
  cargo xtask crash backends
  cargo xtask crash undo
  cargo xtask crash fleet --tasks 200 --workers 8 --kills 50
  cargo xtask crash children --kills 50
  cargo xtask crash tasks --tasks 300 --workers 4 --kills 20
  cargo xtask soak --seconds 45
  cargo xtask hostile --seconds 60
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == backends::agent::ARGUMENT) {
        return exit_code(backends::agent::run(&args));
    }
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    exit_code(match args.split_first() {
        Some((word, rest)) if word == "child" => run_child(rest),
        Some((word, rest)) if word == "look" => inspect_data(rest),
        Some((word, rest)) if word == "feed" => kill_feed_writers(rest),
        Some((word, rest)) if word == "write" => write(rest),
        Some((word, rest)) if word == "soak" => run_soak(rest),
        Some((word, rest)) if word == "hostile" => run_hostile(rest),
        Some((word, rest)) if word == hostile::HOST => run_hostile_host(rest),
        Some((word, rest)) if word == "backends" => kill_during_backends(rest),
        Some((word, rest)) if word == "undo" => kill_during_undo(rest),
        Some((word, rest)) if word == "fleet" => kill_during_fleet(rest),
        Some((word, rest)) if word == "config" => kill_with_changing_config(rest),
        Some((word, rest)) if word == "children" => kill_with_children(rest),
        Some((word, rest)) if word == "with-children" => run_with_children(rest),
        Some((word, rest)) if word == "tasks" => kill_during_tasks(rest),
        _ => kill(&args),
    })
}

fn exit_code(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-crash: {error}");
            ExitCode::FAILURE
        }
    }
}

fn kill(args: &[String]) -> Result<(), String> {
    let kills = number(args, "--kills")?.unwrap_or(200);
    let seed = seed(args)?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    eprintln!("seed {seed}");
    let plan = harness::KillPlan {
        program,
        kills,
        seed,
    };
    let summary = harness::run(&plan, |life| {
        if life % 100 == 0 {
            eprintln!("{life} of {kills} kills");
        }
    })?;
    let figures = summary.figures;
    println!(
        "seed {seed}: {} kills ({} at named points), {} turns finished, {} resumed, {} given up, {} outcomes unknown, {} forks: all checks passed",
        summary.kills,
        summary.at_points,
        figures.ended_turns,
        figures.resumed,
        figures.given_up,
        figures.unknown_outcomes,
        figures.forks
    );
    Ok(())
}

fn run_child(args: &[String]) -> Result<(), String> {
    if let Some(stop_at) = value(args, "--stop-at") {
        let (point, nth) = stop_at.split_once(':').ok_or("--stop-at takes POINT:N")?;
        faults::arm(point, nth.parse().map_err(|_| "--stop-at takes POINT:N")?);
    }
    let directory = value(args, "--data")
        .map(PathBuf::from)
        .ok_or("--data is missing")?;
    let options = child::ChildOptions {
        directory,
        seed: number(args, "--seed")?.unwrap_or(1),
        inputs: usize::try_from(number(args, "--inputs")?.unwrap_or(0)).unwrap_or(usize::MAX),
    };
    executor()?
        .block_on(child::run(options))
        .map_err(|error| error.to_string())
}

/// Inspects the data and exits, like a program that has printed its output.
fn inspect_data(args: &[String]) -> Result<(), String> {
    let directory = value(args, "--data").map(PathBuf::from);
    let directory = directory.ok_or("--data is missing")?;
    let open = if args.iter().any(|arg| arg == "--read-only") {
        inspect::OpenMode::ToRead
    } else {
        inspect::OpenMode::ToWrite
    };
    let seen = executor()?.block_on(inspect::inspect(directory, open));
    println!("{}", seen.map_err(|error| error.to_string())?);
    // Nothing is closed: the runtime's remains end with the process.
    std::process::exit(0)
}

fn kill_feed_writers(args: &[String]) -> Result<(), String> {
    let plan = harness::KillPlan {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        kills: number(args, "--kills")?.unwrap_or(200),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = executor()?.block_on(feed::run(&plan, |life| {
        if life % 50 == 0 {
            eprintln!("{life} of {kills} kills");
        }
    }))?;
    println!(
        "seed {seed}: {} kills of {} writers, {} records, {} readers began {} times: each record once and in order",
        summary.kills,
        feed::WRITERS,
        summary.records,
        feed::READERS,
        summary.restarts
    );
    Ok(())
}

/// Returns the daemon next to this program; `None` if no confinement is available.
fn daemon_to_kill(word: &str) -> Result<Option<PathBuf>, String> {
    let sandboxes = [Confinement::Bubblewrap, Confinement::Landlock];
    if !sandboxes.iter().any(|confinement| confinement.works_here()) {
        println!(
            "SKIPPED: crash {word}: no sandbox works on this machine, and without a sandbox nothing is started"
        );
        return Ok(None);
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let daemon = own.with_file_name("windlass");
    if daemon.exists() {
        Ok(Some(daemon))
    } else {
        let daemon = daemon.display();
        Err(format!(
            "there is no {daemon}; `cargo build -p windlass` builds it"
        ))
    }
}

fn kill_during_undo(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("undo")? else {
        return Ok(());
    };
    let plan = undo::UndoTrialPlan {
        daemon,
        kills: number(args, "--kills")?.unwrap_or(200),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = undo::run(&plan, |done| eprintln!("{done} of {kills} kills"))?;
    let [edit, command, approval, undo] = summary.kills;
    println!(
        "seed {seed}: {} kills of the daemon ({edit} in an edit, {command} in a command, {approval} in an approval, {undo} in an undo) and {} \
         after the end, {} turns, {} outcomes unknown, {} undos of files and conversation ({} of them with an interrupted call), \
         {} refused because of edits by the user: all checks passed",
        summary.all_kills(),
        summary.late_kills,
        summary.turns,
        summary.unknown,
        summary.undone,
        summary.cut_off,
        summary.refused
    );
    Ok(())
}

fn kill_during_tasks(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("tasks")? else {
        return Ok(());
    };
    let plan = tasks::TaskTrialPlan {
        daemon,
        tasks: number(args, "--tasks")?.unwrap_or(10_000),
        workers: number(args, "--workers")?.unwrap_or(8),
        kills: number(args, "--kills")?.unwrap_or(200),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = tasks::run(&plan, |done| {
        if done % 10 == 0 {
            eprintln!("{done} of {kills} kills");
        }
    })?;
    println!(
        "seed {seed}: {} kills of the daemon, {} tasks of three tokens ended once each, {} attempts with one turn each, {} failed, and no token \
         was more than {} % ahead of another: all checks passed",
        summary.kills, summary.tasks, summary.attempts, summary.failed, summary.max_lead
    );
    Ok(())
}

fn kill_during_backends(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("backends")? else {
        return Ok(());
    };
    let agent = std::env::current_exe().map_err(|error| error.to_string())?;
    let plan = backends::BackendTrialPlan {
        daemon,
        agent,
        kills: number(args, "--kills")?.unwrap_or(100),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = backends::run(&plan, |life| {
        if life % 10 == 0 {
            eprintln!("{life} of {kills} kills");
        }
    })?;
    println!(
        "seed {seed}: {} kills of the daemon during a turn and {} after its end, {} turns of an agent, {} prompts sent again \
         with a notice, {} processes left running and ended: all checks passed",
        summary.kills,
        summary.late_kills,
        summary.turns,
        summary.repeated_prompts,
        summary.left_behind
    );
    Ok(())
}

fn kill_during_fleet(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("fleet")? else {
        return Ok(());
    };
    let plan = fleet::FleetTrialPlan {
        daemon,
        agent: std::env::current_exe().map_err(|error| error.to_string())?,
        tasks: number(args, "--tasks")?.unwrap_or(200),
        workers: number(args, "--workers")?.unwrap_or(8),
        kills: number(args, "--kills")?.unwrap_or(50),
        seed: seed(args)?,
    };
    let seed = plan.seed;
    eprintln!("seed {seed}");
    let summary = fleet::run(&plan, |done, ended| {
        if done % 10 == 0 {
            eprintln!(
                "{done} of {} kills, {ended} of {} tasks",
                plan.kills, plan.tasks
            );
        }
    })?;
    let [completed, failed, cancelled] = summary.ends;
    println!(
        "seed {seed}: {} kills of the daemon, {} tasks on {} workers: {completed} completed, {failed} failed, {cancelled} cancelled ({} of them on \
         an external agent), {} attempts, {} restarted, {} interrupts, {} commands ran, {} outcomes unknown, {} prompts sent again with a notice: \
         all checks passed",
        summary.kills,
        plan.tasks,
        plan.workers,
        summary.on_agent,
        summary.attempts,
        summary.restarts,
        summary.interrupts,
        summary.commands,
        summary.unknown,
        summary.repeated_prompts
    );
    Ok(())
}

fn kill_with_changing_config(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("config")? else {
        return Ok(());
    };
    let plan = config::ConfigTrialPlan {
        daemon,
        agent: std::env::current_exe().map_err(|error| error.to_string())?,
        kills: number(args, "--kills")?.unwrap_or(100),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = config::run(&plan, |done| {
        if done % 10 == 0 {
            eprintln!("{done} of {kills} kills");
        }
    })?;
    let held = summary.held.iter();
    let held: Vec<_> = held
        .map(|(cause, times)| format!("{cause} {times}"))
        .collect();
    println!(
        "seed {seed}: {} kills of the daemon with a changing configuration, {} tasks and {} tasks of fleet runs done once, {} cancelled, {} \
         commands ran, seen held by {}: all checks passed",
        summary.kills,
        summary.tasks,
        summary.fleet_tasks,
        summary.cancelled,
        summary.commands,
        held.join(", ")
    );
    Ok(())
}

fn kill_with_children(args: &[String]) -> Result<(), String> {
    let plan = harness::KillPlan {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        kills: number(args, "--kills")?.unwrap_or(200),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = children::run(&plan, |done| eprintln!("{done} of {kills} kills"))?;
    println!(
        "seed {seed}: {} kills among {} agents of {} turns with one dollar each and {} after the end, {} model calls and {} interrupted, \
         at most {:.3} dollars used: all checks passed",
        summary.kills,
        children::AGENTS,
        summary.trees,
        summary.late_kills,
        summary.calls,
        summary.cut_off,
        summary.most_used as f64 / 1e6
    );
    Ok(())
}

fn run_with_children(args: &[String]) -> Result<(), String> {
    let directory = value(args, "--data").map(PathBuf::from);
    let directory = directory.ok_or("--data is missing")?;
    let worked = executor()?.block_on(children::work(directory));
    worked.map_err(|error| error.to_string())
}

fn write(args: &[String]) -> Result<(), String> {
    let directory = value(args, "--data").map(PathBuf::from);
    let directory = directory.ok_or("--data is missing")?;
    let seed = number(args, "--seed")?.unwrap_or(1);
    executor()?.block_on(feed::write(directory, seed))
}

fn run_soak(args: &[String]) -> Result<(), String> {
    let seconds = number(args, "--seconds")?.unwrap_or(30 * 60);
    let seed = seed(args)?;
    eprintln!("seed {seed}, {seconds} s");
    let plan = soak::SoakPlan {
        length: Duration::from_secs(seconds),
        seed,
    };
    let summary = executor()?.block_on(soak::run(plan))?;
    println!("{summary}");
    summary.verdict()
}

fn run_hostile(args: &[String]) -> Result<(), String> {
    let seconds = number(args, "--seconds")?.unwrap_or(30 * 60);
    let confinement = match value(args, "--sandbox") {
        None => None,
        Some("bubblewrap") => Some(Confinement::Bubblewrap),
        Some("landlock") => Some(Confinement::Landlock),
        Some(other) => {
            return Err(format!(
                "--sandbox takes bubblewrap or landlock, not `{other}`"
            ));
        }
    };
    if args.iter().any(|arg| arg == "--escapes-only") {
        executor()?.block_on(hostile::attempt_escapes(confinement))?;
        println!("no command escaped from its sandbox");
        return Ok(());
    }
    let seed = seed(args)?;
    eprintln!("seed {seed}, {seconds} s");
    let plan = hostile::HostilePlan {
        length: Duration::from_secs(seconds),
        seed,
        confinement,
    };
    let summary = executor()?.block_on(hostile::run(plan))?;
    println!("{summary}");
    summary.verdict()
}

fn run_hostile_host(args: &[String]) -> Result<(), String> {
    executor()?.block_on(hostile::run_host(args))
}

fn executor() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())
}

fn seed(args: &[String]) -> Result<u64, String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(number(args, "--seed")?.unwrap_or_else(|| now.map_or(1, |now| now.as_secs())))
}

fn value<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1).map(String::as_str)
}

fn number(args: &[String], name: &str) -> Result<Option<u64>, String> {
    match value(args, name) {
        None => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| format!("{name} takes a number, not `{text}`")),
    }
}
