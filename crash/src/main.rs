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
    backends, child, children, config, faults, feed, fleet, harness, hostile, look, soak, tasks,
    undo,
};
use windlass_tools::Confinement;

const HELP: &str = "\
Kills a working runtime with SIGKILL, at random moments and at named points, and checks what it left behind.

With `feed` 64 writers are killed together while three readers follow the feed over all streams from their cursors.

With `backends` the daemon is killed while an agent of others carries a turn: nothing of the agent's processes is left, every turn
completes, and nothing is told twice without a notice. The daemon is the program `windlass` beside this one.

With `undo` the daemon is killed while a scripted model edits a file, runs a command in the sandbox and asks, and while that is taken back:
every turn ends once, nothing runs twice, files and conversation come back together, and edits of others stay.

With `fleet` the daemon is killed while a run of many tasks is carried out, half of the workers on an agent of others: every task ends once,
attempts are counted as the rule says, and nothing is repeated in silence.

With `children` a process is killed while twenty agents of one turn work under a budget of one dollar that they share: what is used is never
above it by more than what is set aside for one call, and all sums agree.

With `config` the daemon is killed and restarted while a backend, a model, a directory and the token file are removed and restored at random:
a job whose needs are missing is held, none ends while its turn is open, and each is done once when everything is restored.

With `tasks` the daemon is killed while three tokens queue tasks and its workers carry them out: none is lost or made twice, each ends once
with one turn for each attempt, and no token is served much better than another.

With `soak` nobody is killed: random sessions come and go on a store with retention, and memory, log and disk must level off.

With `hostile` commands first try to escape: to outlive a command, its time, an interrupt and a killed host by forking without end, to take the
port of a killed host, and to reach shared memory and the home of the user. Then a model calls tools with hostile values beside honest sessions:
those complete, nothing outside of the root changes, and memory and descriptors level off.

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
  --kills N     how often (default 200; with `backends` and `config` 100, with `fleet` 50)
  --tasks N     how many tasks (default 10000; with `fleet` 200)
  --workers N   how many of them run at once, 1 to 8 (default 8)
  --seconds N   how long (default 1800)
  --seed S      chooses moments, points and inputs (default: the time); printed, so that a failure can be repeated
  --help        this text

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
    if args.iter().any(|arg| arg == backends::agent::WORD) {
        return ended(backends::agent::live(&args));
    }
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    ended(match args.split_first() {
        Some((word, rest)) if word == "child" => live(rest),
        Some((word, rest)) if word == "look" => see(rest),
        Some((word, rest)) if word == "feed" => follow(rest),
        Some((word, rest)) if word == "write" => write(rest),
        Some((word, rest)) if word == "soak" => watch(rest),
        Some((word, rest)) if word == "hostile" => attack(rest),
        Some((word, rest)) if word == hostile::HOST => be_hostile_host(rest),
        Some((word, rest)) if word == "backends" => kill_daemon(rest),
        Some((word, rest)) if word == "undo" => take_back(rest),
        Some((word, rest)) if word == "fleet" => kill_fleet(rest),
        Some((word, rest)) if word == "config" => change_config(rest),
        Some((word, rest)) if word == "children" => orphan(rest),
        Some((word, rest)) if word == "with-children" => work_with_children(rest),
        Some((word, rest)) if word == "tasks" => work(rest),
        _ => kill(&args),
    })
}

fn ended(done: Result<(), String>) -> ExitCode {
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
    let plan = harness::Plan {
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
        "seed {seed}: {} kills ({} at named points), {} turns finished, {} resumed, {} given up, {} outcomes unknown, {} forks: all holds",
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

fn live(args: &[String]) -> Result<(), String> {
    if let Some(stop_at) = value(args, "--stop-at") {
        let (point, nth) = stop_at.split_once(':').ok_or("--stop-at takes POINT:N")?;
        faults::arm(point, nth.parse().map_err(|_| "--stop-at takes POINT:N")?);
    }
    let directory = value(args, "--data")
        .map(PathBuf::from)
        .ok_or("--data is missing")?;
    let life = child::Life {
        directory,
        seed: number(args, "--seed")?.unwrap_or(1),
        inputs: usize::try_from(number(args, "--inputs")?.unwrap_or(0)).unwrap_or(usize::MAX),
    };
    executor()?
        .block_on(child::live(life))
        .map_err(|error| error.to_string())
}

/// Inspects the data and exits, like a program that has printed its output.
fn see(args: &[String]) -> Result<(), String> {
    let directory = value(args, "--data").map(PathBuf::from);
    let directory = directory.ok_or("--data is missing")?;
    let open = if args.iter().any(|arg| arg == "--read-only") {
        look::Open::ToRead
    } else {
        look::Open::ToWrite
    };
    let seen = executor()?.block_on(look::look(directory, open));
    println!("{}", seen.map_err(|error| error.to_string())?);
    // Nothing is closed: the runtime's remains end with the process.
    std::process::exit(0)
}

fn follow(args: &[String]) -> Result<(), String> {
    let plan = harness::Plan {
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
    if !sandboxes.iter().any(|way| way.works_here()) {
        println!(
            "SKIPPED: crash {word}: no sandbox works on this machine, and without one nothing is started"
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
            "there is no {daemon}; `cargo build -p windlass` makes it"
        ))
    }
}

fn take_back(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("undo")? else {
        return Ok(());
    };
    let plan = undo::Plan {
        daemon,
        kills: number(args, "--kills")?.unwrap_or(200),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = undo::run(&plan, |done| eprintln!("{done} of {kills} kills"))?;
    let [edit, command, approval, undo] = summary.kills;
    println!(
        "seed {seed}: {} kills of the daemon ({edit} in an edit, {command} in a command, {approval} in an approval, {undo} in going back) and {} \
         behind the end, {} turns, {} outcomes unknown, {} times files and conversation came back ({} of them with a call that was cut off), \
         {} refused over edits of others: all holds",
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

fn work(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("tasks")? else {
        return Ok(());
    };
    let plan = tasks::Plan {
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
         was more than {} % ahead of another: all holds",
        summary.kills, summary.tasks, summary.attempts, summary.failed, summary.unfair
    );
    Ok(())
}

fn kill_daemon(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("backends")? else {
        return Ok(());
    };
    let agent = std::env::current_exe().map_err(|error| error.to_string())?;
    let plan = backends::Plan {
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
        "seed {seed}: {} kills of the daemon in the middle of a turn and {} behind its end, {} turns of an agent, {} prompts told again \
         with a notice, {} processes left behind and ended: all holds",
        summary.kills, summary.late_kills, summary.turns, summary.told_again, summary.left_behind
    );
    Ok(())
}

fn kill_fleet(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("fleet")? else {
        return Ok(());
    };
    let plan = fleet::Plan {
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
         an agent of others), {} attempts, {} restarted, {} interrupts, {} commands ran, {} outcomes unknown, {} prompts told again with a notice: \
         all holds",
        summary.kills,
        plan.tasks,
        plan.workers,
        summary.on_agent,
        summary.attempts,
        summary.restarts,
        summary.interrupts,
        summary.commands,
        summary.unknown,
        summary.told_again
    );
    Ok(())
}

fn change_config(args: &[String]) -> Result<(), String> {
    let Some(daemon) = daemon_to_kill("config")? else {
        return Ok(());
    };
    let plan = config::Plan {
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
         commands ran, seen held by {}: all holds",
        summary.kills,
        summary.tasks,
        summary.fleet_tasks,
        summary.cancelled,
        summary.commands,
        held.join(", ")
    );
    Ok(())
}

fn orphan(args: &[String]) -> Result<(), String> {
    let plan = harness::Plan {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        kills: number(args, "--kills")?.unwrap_or(200),
        seed: seed(args)?,
    };
    let (seed, kills) = (plan.seed, plan.kills);
    eprintln!("seed {seed}");
    let summary = children::run(&plan, |done| eprintln!("{done} of {kills} kills"))?;
    println!(
        "seed {seed}: {} kills among {} agents of {} turns with one dollar each and {} behind the end, {} calls of the model and {} cut off, \
         at most {:.3} dollars used: all holds",
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

fn work_with_children(args: &[String]) -> Result<(), String> {
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

fn watch(args: &[String]) -> Result<(), String> {
    let seconds = number(args, "--seconds")?.unwrap_or(30 * 60);
    let seed = seed(args)?;
    eprintln!("seed {seed}, {seconds} s");
    let plan = soak::Plan {
        length: Duration::from_secs(seconds),
        seed,
    };
    let summary = executor()?.block_on(soak::run(plan))?;
    println!("{summary}");
    summary.verdict()
}

fn attack(args: &[String]) -> Result<(), String> {
    let seconds = number(args, "--seconds")?.unwrap_or(30 * 60);
    let way = match value(args, "--sandbox") {
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
        executor()?.block_on(hostile::attempt_escapes(way))?;
        println!("no command escaped from its sandbox");
        return Ok(());
    }
    let seed = seed(args)?;
    eprintln!("seed {seed}, {seconds} s");
    let plan = hostile::Plan {
        length: Duration::from_secs(seconds),
        seed,
        way,
    };
    let summary = executor()?.block_on(hostile::run(plan))?;
    println!("{summary}");
    summary.verdict()
}

fn be_hostile_host(args: &[String]) -> Result<(), String> {
    executor()?.block_on(hostile::be_host(args))
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
