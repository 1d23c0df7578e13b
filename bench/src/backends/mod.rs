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
use crate::daemon::child::{self, DaemonProcess};
use crate::daemon::client::{BenchClient, BenchEvents};
use crate::machine;
use crate::report::{Bound, Report};
use bare::{Stub, Took};

/// The agent's orders for a turn: text, a call, and text.
const TURN: &str = "say a windlass hauls; tool t1; say and its pawl holds";
const TURNS: usize = 200;
const AT_ONCE: usize = 50;
/// An answer of 50 MB in chunks of 1 KiB.
const LONG_TURN: &str = "flood 48828";
/// Name of the backend.
const BACKEND: &str = "stub";

/// Measures turns of the stub on the daemon and without it.
pub fn run(mut report: Report) -> Result<Report> {
    report.progress("nothing yet: building the daemon and the stub");
    let daemon = child::build()?;
    let stub = build_stub()?;
    let executor = tokio::runtime::Runtime::new()?;
    executor.block_on(async {
        let fixture = StubFixture::make(&daemon, &stub)?;
        one_after_the_other(&mut report, &fixture).await?;
        at_once(&mut report, &fixture).await?;
        long_answer(&mut report, &fixture).await?;
        Ok(report)
    })
}

/// Builds the stub with this program's profile.
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

/// A home with the stub in its workspace, where every sandbox can see it.
struct StubFixture {
    home: tempfile::TempDir,
    daemon: PathBuf,
    stub: PathBuf,
}

impl StubFixture {
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

    /// Starts a daemon and connects a client.
    fn start(&self) -> Result<(DaemonProcess, BenchClient)> {
        let at = |name: &str| self.home.path().join(name).display().to_string();
        let (workspace, config) = (at("workspace"), at("windlass.toml"));
        let arguments = ["--workspace", &workspace, "--config", &config];
        let daemon = DaemonProcess::start_with(&self.daemon, self.home.path(), &arguments)?;
        let client = BenchClient::new(&daemon.address)?;
        Ok((daemon, client))
    }
}

/// Creates a thread that uses the stub.
async fn thread(client: &BenchClient) -> Result<(String, BenchEvents)> {
    let thread = client.thread_with(&json!({"backend": BACKEND})).await?;
    let events = client.events(&thread).await?;
    Ok((thread, events))
}

/// Runs a turn on the daemon and measures it from the client.
async fn turn(
    client: &BenchClient,
    thread: &str,
    events: &mut BenchEvents,
    prompt: &str,
) -> Result<Took> {
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

/// Overhead of a turn over the stub's own time, with a running process.
async fn one_after_the_other(report: &mut Report, fixture: &StubFixture) -> Result<()> {
    report.progress("turns of one stub, bare");
    let mut stub = Stub::start(&fixture.stub)?;
    stub.turn(TURN)?;
    let cpu = machine::cpu_time() + stub.cpu_time();
    let bare: Vec<Took> = (0..TURNS).map(|_| stub.turn(TURN)).collect::<Result<_>>()?;
    let bare_cpu = (machine::cpu_time() + stub.cpu_time() - cpu) / TURNS as u32;
    drop(stub);

    report.progress("turns of one stub on the daemon");
    let (daemon, client) = fixture.start()?;
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
    report.figure("bare stub: CPU of a turn", ms(bare_cpu), "ms", Bound::None);
    report.figure(
        "bare stub: first text",
        ms(firsts(&bare)),
        "ms",
        Bound::None,
    );
    report.figure(
        "CPU above the stub's own",
        ms(above),
        "ms",
        Bound::AtMost(5.0),
    );
    let first = ms(firsts(&carried)) - ms(firsts(&bare));
    report.figure(
        "first text later than the stub's",
        first,
        "ms",
        Bound::AtMost(100.0),
    );
    let whole = ms(wholes(&carried)) - ms(wholes(&bare));
    report.figure("turn longer than the stub's", whole, "ms", Bound::None);
    let ratio = (ms(above) + ms(bare_cpu)) / ms(bare_cpu);
    report.figure("CPU of a turn / bare stub", ratio, "ratio", Bound::None);
    Ok(())
}

/// Fifty concurrent agents, including the start of their processes.
async fn at_once(report: &mut Report, fixture: &StubFixture) -> Result<()> {
    report.progress("50 stubs at once, bare");
    let started = Instant::now();
    let running: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let program = fixture.stub.clone();
            std::thread::spawn(move || Stub::start(&program)?.turn(TURN).map(drop))
        })
        .collect();
    for one in running {
        one.join().map_err(|_| "a bare stub panicked")??;
    }
    let bare = started.elapsed();

    report.progress("50 stubs at once on the daemon");
    let (daemon, client) = fixture.start()?;
    let mut threads = Vec::new();
    for _ in 0..AT_ONCE {
        threads.push(thread(&client).await?);
    }
    for (round, wanted) in [("start and turn", Bound::None), ("turn", Bound::None)] {
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
        report.figure(&label("all done"), ms(took), "ms", Bound::None);
        report.figure(
            &label("CPU of the daemon for each"),
            ms(cpu),
            "ms",
            Bound::None,
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
        Bound::AtMost(100.0),
    );
    Ok(())
}

/// Throughput of a long answer.
async fn long_answer(report: &mut Report, fixture: &StubFixture) -> Result<()> {
    report.progress("an answer of 50 MB, bare and on the daemon");
    let bare = Stub::start(&fixture.stub)?.turn(LONG_TURN)?;
    let (daemon, client) = fixture.start()?;
    let (id, mut events) = thread(&client).await?;
    let carried = turn(&client, &id, &mut events, LONG_TURN).await?;
    if carried.bytes != bare.bytes {
        let (all, came) = (bare.bytes, carried.bytes);
        return Err(format!("of {all} bytes of text {came} came").into());
    }
    let speed = |took: &Took| took.bytes as f64 / 1e6 / took.whole.as_secs_f64();
    report.figure("50 MB: bare stub", speed(&bare), "MB/s", Bound::None);
    report.figure(
        "50 MB: on the daemon",
        speed(&carried),
        "MB/s",
        Bound::AtLeast(5.0),
    );
    report.figure(
        "50 MB: on the daemon / bare stub",
        speed(&carried) / speed(&bare),
        "ratio",
        Bound::None,
    );
    let resident = daemon.resident_bytes() as f64 / 1e6;
    report.figure("50 MB: resident set after it", resident, "MB", Bound::None);
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
