//! Turns that an external agent executes, compared with the same agent without a runtime in the same run. The agent is the stub of
//! `windlass-external-agents`, which responds immediately.

mod bare;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::daemon::Result;
use crate::daemon::child::{self, Daemon};
use crate::daemon::client::{Client, Events};
use crate::machine;
use crate::report::{Report, Target};
use bare::{Stub, Took};

/// What the agent does in a turn: text, a call, and text.
const TURN: &str = "say a windlass hauls; tool t1; say and its pawl holds";
const TURNS: usize = 200;
const AT_ONCE: usize = 50;
/// An answer of 50 MB, in pieces of 1 KiB.
const LONG_TURN: &str = "flood 48828";
/// How the agent is named.
const BACKEND: &str = "stub";

/// Measures turns of the stub on the daemon and without it.
pub fn run(mut report: Report) -> Result<Report> {
    report.progress("nothing yet: building the daemon and the stub");
    let daemon = child::build()?;
    let stub = build_stub()?;
    let executor = tokio::runtime::Runtime::new()?;
    executor.block_on(async {
        let place = Place::make(&daemon, &stub)?;
        one_after_the_other(&mut report, &place).await?;
        at_once(&mut report, &place).await?;
        long_answer(&mut report, &place).await?;
        Ok(report)
    })
}

/// Builds the stub beside this program, as optimised as this program is.
fn build_stub() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "windlass-external-agents"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    if !build.status()?.success() {
        return Err("the stub could not be built".into());
    }
    Ok(std::env::current_exe()?.with_file_name("windlass-stub-agent"))
}

/// A home with the stub in its workspace, which every sandbox shows.
struct Place {
    home: tempfile::TempDir,
    daemon: PathBuf,
    stub: PathBuf,
}

impl Place {
    fn make(daemon: &Path, stub: &Path) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let workspace = home.path().join("workspace");
        fs::create_dir(&workspace)?;
        let own = workspace.join("stub");
        fs::copy(stub, &own)?;
        let config = format!(
            "[backends.{BACKEND}]\nkind = 'claude-code'\nhome = 'own'\ncommand = '{}'\n",
            own.display()
        );
        fs::write(home.path().join("windlass.toml"), config)?;
        Ok(Self {
            home,
            daemon: daemon.to_owned(),
            stub: own,
        })
    }

    /// Starts a daemon, and makes a client of it.
    fn start(&self) -> Result<(Daemon, Client)> {
        let at = |name: &str| self.home.path().join(name).display().to_string();
        let (workspace, config) = (at("workspace"), at("windlass.toml"));
        let arguments = ["--workspace", &workspace, "--config", &config];
        let daemon = Daemon::start_with(&self.daemon, self.home.path(), &arguments)?;
        let client = Client::of(&daemon.address)?;
        Ok((daemon, client))
    }
}

/// Makes a thread on the stub.
async fn thread(client: &Client) -> Result<(String, Events)> {
    let thread = client.thread_with(&json!({"backend": BACKEND})).await?;
    let events = client.events(&thread).await?;
    Ok((thread, events))
}

/// Runs a turn on the daemon, as a client sees it.
async fn turn(client: &Client, thread: &str, events: &mut Events, prompt: &str) -> Result<Took> {
    let started = Instant::now();
    client.turn(thread, prompt).await?;
    let (mut first, mut bytes) = (None, 0);
    loop {
        let frame = events.next().await?;
        match frame.name.as_str() {
            "item.delta" => {
                first.get_or_insert_with(|| started.elapsed());
                let delta = frame.data.pointer("/payload/delta");
                bytes += delta.and_then(|it| it.as_str()).map_or(0, str::len);
            }
            "turn.completed" => {
                let status = &frame.data["payload"]["turn"]["status"];
                if status != "completed" {
                    return Err(format!("a turn ended as {}", frame.data).into());
                }
                let whole = started.elapsed();
                let first = first.unwrap_or(whole);
                return Ok(Took {
                    first,
                    whole,
                    bytes,
                });
            }
            _ => {}
        }
    }
}

/// What a turn costs above the stub's own time, in a process that is there already.
async fn one_after_the_other(report: &mut Report, place: &Place) -> Result<()> {
    report.progress("turns of one stub, bare");
    let mut stub = Stub::start(&place.stub)?;
    stub.turn(TURN)?;
    let cpu = machine::cpu_time() + stub.cpu_time();
    let bare: Vec<Took> = (0..TURNS).map(|_| stub.turn(TURN)).collect::<Result<_>>()?;
    let bare_cpu = (machine::cpu_time() + stub.cpu_time() - cpu) / TURNS as u32;
    drop(stub);

    report.progress("turns of one stub on the daemon");
    let (daemon, client) = place.start()?;
    let (id, mut events) = thread(&client).await?;
    turn(&client, &id, &mut events, TURN).await?;
    let cpu = daemon.cpu_time();
    let mut carried = Vec::new();
    for _ in 0..TURNS {
        carried.push(turn(&client, &id, &mut events, TURN).await?);
    }
    let above = (daemon.cpu_time() - cpu) / TURNS as u32;

    let firsts = |took: &[Took]| median(took.iter().map(|it| it.first));
    let wholes = |took: &[Took]| median(took.iter().map(|it| it.whole));
    report.figure("bare stub: CPU of a turn", ms(bare_cpu), "ms", Target::None);
    report.figure(
        "bare stub: first text",
        ms(firsts(&bare)),
        "ms",
        Target::None,
    );
    report.figure(
        "CPU above the stub's own",
        ms(above),
        "ms",
        Target::AtMost(5.0),
    );
    let first = ms(firsts(&carried)) - ms(firsts(&bare));
    report.figure(
        "first text later than the stub's",
        first,
        "ms",
        Target::AtMost(100.0),
    );
    let whole = ms(wholes(&carried)) - ms(wholes(&bare));
    report.figure("turn longer than the stub's", whole, "ms", Target::None);
    let ratio = (ms(above) + ms(bare_cpu)) / ms(bare_cpu);
    report.figure("CPU of a turn / bare stub", ratio, "ratio", Target::None);
    Ok(())
}

/// Fifty agents at once, each with a process that has to be started first.
async fn at_once(report: &mut Report, place: &Place) -> Result<()> {
    report.progress("50 stubs at once, bare");
    let started = Instant::now();
    let running: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let program = place.stub.clone();
            std::thread::spawn(move || Stub::start(&program)?.turn(TURN).map(drop))
        })
        .collect();
    for one in running {
        one.join().map_err(|_| "a bare stub panicked")??;
    }
    let bare = started.elapsed();

    report.progress("50 stubs at once on the daemon");
    let (daemon, client) = place.start()?;
    let mut threads = Vec::new();
    for _ in 0..AT_ONCE {
        threads.push(thread(&client).await?);
    }
    for (round, wanted) in [("start and turn", Target::None), ("turn", Target::None)] {
        let (started, cpu) = (Instant::now(), daemon.cpu_time());
        let mut work = JoinSet::new();
        for (id, mut events) in threads.drain(..) {
            let client = client.clone();
            work.spawn(async move {
                turn(&client, &id, &mut events, TURN).await?;
                Result::Ok((id, events))
            });
        }
        while let Some(done) = work.join_next().await {
            threads.push(done??);
        }
        let took = started.elapsed();
        let cpu = (daemon.cpu_time() - cpu) / AT_ONCE as u32;
        let label = |what: &str| format!("50 at once, {round}: {what}");
        report.figure(&label("all done"), ms(took), "ms", Target::None);
        report.figure(
            &label("CPU of the daemon for each"),
            ms(cpu),
            "ms",
            Target::None,
        );
        report.figure(
            &label("all done / bare stubs with start"),
            ms(took) / ms(bare),
            "ratio",
            wanted,
        );
    }
    let resident = daemon.resident_bytes() as f64 / 1e6;
    report.figure(
        "resident set with 50 agents",
        resident,
        "MB",
        Target::AtMost(100.0),
    );
    Ok(())
}

/// How fast text comes through that an agent pours out.
async fn long_answer(report: &mut Report, place: &Place) -> Result<()> {
    report.progress("an answer of 50 MB, bare and on the daemon");
    let bare = Stub::start(&place.stub)?.turn(LONG_TURN)?;
    let (daemon, client) = place.start()?;
    let (id, mut events) = thread(&client).await?;
    let carried = turn(&client, &id, &mut events, LONG_TURN).await?;
    if carried.bytes != bare.bytes {
        let (all, came) = (bare.bytes, carried.bytes);
        return Err(format!("of {all} bytes of text {came} came").into());
    }
    let speed = |took: &Took| took.bytes as f64 / 1e6 / took.whole.as_secs_f64();
    report.figure("50 MB: bare stub", speed(&bare), "MB/s", Target::None);
    report.figure(
        "50 MB: on the daemon",
        speed(&carried),
        "MB/s",
        Target::AtLeast(5.0),
    );
    report.figure(
        "50 MB: on the daemon / bare stub",
        speed(&carried) / speed(&bare),
        "ratio",
        Target::None,
    );
    let resident = daemon.resident_bytes() as f64 / 1e6;
    report.figure("50 MB: resident set after it", resident, "MB", Target::None);
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
