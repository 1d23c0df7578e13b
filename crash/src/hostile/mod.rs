//! A hostile model beside honest ones: whatever it calls with whatever values, honest turns complete, nothing outside of its root
//! changes, and what the process takes up levels off.

mod escapes;
mod model;
mod place;
mod values;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use windlass_core::capability_types::AgentCapabilityConfig;
use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_core::message::InputMessage;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RuntimeBackends, RuntimeSettings,
    SessionBuilder,
};
use windlass_store::sqlite::{SqliteOptions, SqliteStore};
use windlass_tools::{Confinement, FilesCapability, ShellCapability, ShellSettings, end_leftovers};

use crate::child::harness_id;
use crate::series::{self, Table};
use crate::soak::RETENTION;
use crate::usage::Usage;
pub use escapes::{HOST, attempt_all as attempt_escapes, be_host};
use model::{TwoMinds, honest_file, honest_text};
use place::Place;

/// How many hostile sessions and how many honest ones have turns at once.
const HOSTILE: u64 = 4;
const HONEST: u64 = 2;
/// How many samples are taken.
const SAMPLES: u32 = 60;
/// How many turns a session has before it goes.
const TURNS: u64 = 8;
/// How long a command of a model may take, which many of the hostile ones use up.
const COMMAND_TIME: Duration = Duration::from_secs(2);
/// How long an honest turn may take before it counts as held up for good.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// By which commands of this trial are found when it is over.
const OWNER: &str = "windlass-hostile";

/// What a trial is for.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How long it takes.
    pub length: Duration,
    /// Chooses what the hostile model says.
    pub seed: u64,
    /// How commands are confined; the best way that works here unless said otherwise.
    pub way: Option<Confinement>,
}

/// What a trial came to.
#[derive(Debug, Clone)]
pub struct Summary {
    plan: Plan,
    /// How many calls the hostile model made.
    pub tried: u64,
    hostile_turns: u64,
    honest_turns: u64,
    samples: Vec<Usage>,
}

/// Runs a trial in a directory of its own, which is removed; says what broke, if anything did.
pub async fn run(plan: Plan) -> Result<Summary, String> {
    escapes::attempt_all(plan.way).await?;
    let place = Arc::new(Place::new().map_err(text)?);
    let before = place.outside().map_err(text)?;
    let directory = place.at("store");
    let options = SqliteOptions::new(&directory).with_retention(RETENTION);
    let store = SqliteStore::open(options).await.map_err(text)?;
    let tried = Arc::new(AtomicU64::new(0));
    let runtime = runtime(plan, &place, &store, &tried)?.build().await;
    let runtime = runtime.map_err(text)?;

    let until = Instant::now() + plan.length;
    let mut hostile = Vec::new();
    for n in 0..HOSTILE {
        let work = be_hostile(runtime.clone(), plan.seed ^ (n << 40), until);
        hostile.push(tokio::spawn(work));
    }
    let mut honest = Vec::new();
    for n in 0..HONEST {
        let work = be_honest(runtime.clone(), Arc::clone(&place), n << 32, until);
        honest.push(tokio::spawn(work));
    }
    let mut samples = Vec::new();
    let every = plan.length / SAMPLES;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    for _ in 0..SAMPLES {
        ticks.tick().await;
        let now = chrono::Utc::now();
        store.maintain(now).await.map_err(text)?;
        samples.push(Usage::now(&directory));
        check_outside(&place, &before)?;
    }
    let (mut hostile_turns, mut honest_turns) = (0, 0);
    for work in hostile {
        hostile_turns += work.await.map_err(text)??;
    }
    for work in honest {
        honest_turns += work.await.map_err(text)??;
    }
    check_outside(&place, &before)?;
    let report = store.verify().await.map_err(text)?;
    store.close().await;
    if let Some(finding) = report.findings.first() {
        return Err(format!("what is left does not verify: {finding:?}"));
    }
    match end_leftovers(OWNER) {
        0 => {}
        left => return Err(format!("{left} processes of commands were left")),
    }
    Ok(Summary {
        plan,
        tried: tried.load(Ordering::Relaxed),
        hostile_turns,
        honest_turns,
        samples,
    })
}

fn runtime(
    plan: Plan,
    place: &Place,
    store: &SqliteStore,
    tried: &Arc<AtomicU64>,
) -> Result<InProcessRuntimeBuilder, String> {
    let mut drivers = DriverRegistry::new();
    let tried = Arc::clone(tried);
    drivers.register(ProviderType::LlmSim, move |_, _| {
        let tried = Arc::clone(&tried);
        Box::new(TwoMinds { tried })
    });
    let environments = place.environments()?;
    let mut shell = ShellSettings {
        owner: Some(OWNER.to_owned()),
        timeout: COMMAND_TIME,
        max_timeout: COMMAND_TIME,
        ..ShellSettings::default()
    };
    if let Some(way) = plan.way {
        shell.ways = vec![way];
    }
    // Nobody is there to be asked.
    let never = || json!({ "approval": "never" });
    let harness = HarnessBuilder::new("hostile", "Do as you like.")
        .id(harness_id())
        .capability(AgentCapabilityConfig::with_config("files", never()))
        .capability(AgentCapabilityConfig::with_config("shell", never()));
    Ok(InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(store))
        .settings(RuntimeSettings {
            tool_timeout: Some(Duration::from_secs(30)),
            ..RuntimeSettings::default()
        })
        .driver_registry(drivers)
        .capability(FilesCapability::new(environments.clone()))
        .capability(ShellCapability::new(environments, shell))
        .default_model(ModelWithProvider {
            model: "two-minds".to_owned(),
            provider_type: LlmProviderType::LlmSim,
            api_key: None,
            base_url: None,
        })
        .harness(harness.build()))
}

async fn arrive(runtime: &InProcessRuntime) -> Result<SessionId, String> {
    let session = SessionBuilder::new(harness_id()).build();
    let id = session.id;
    runtime.add_session(session).await.map_err(text)?;
    Ok(id)
}

fn input(said: String, environment: &str) -> InputMessage {
    let environment = TurnEnvironment::new(environment, ".");
    InputMessage::user(said).with_turn_request(TurnRequest {
        environment: Some(environment),
        ..TurnRequest::default()
    })
}

/// Tries one thing after the other; how a turn ends is all the same, as long as it does.
async fn be_hostile(runtime: InProcessRuntime, seed: u64, until: Instant) -> Result<u64, String> {
    let mut turns = 0;
    while Instant::now() < until {
        let id = arrive(&runtime).await?;
        for _ in 0..TURNS {
            turns += 1;
            let said = input(format!("hostile {}", seed ^ turns), "hostile");
            let turn = runtime.run_turn(id, said);
            let ended = tokio::time::timeout(HANGS_AFTER, turn).await;
            ended
                .map_err(|_| format!("the hostile turn {} hangs", seed ^ turns))?
                .ok();
        }
        runtime.remove_session(id).await.map_err(text)?;
    }
    Ok(turns)
}

/// Works as if nobody else were there; each turn completes, and what it wrote is there.
async fn be_honest(
    runtime: InProcessRuntime,
    place: Arc<Place>,
    first: u64,
    until: Instant,
) -> Result<u64, String> {
    let mut turns = 0;
    while Instant::now() < until {
        let id = arrive(&runtime).await?;
        for _ in 0..TURNS {
            let n = first + turns;
            turns += 1;
            let turn = runtime.run_turn(id, input(format!("honest {n}"), "honest"));
            let ended = tokio::time::timeout(HANGS_AFTER, turn).await;
            let ended = ended.map_err(|_| format!("the honest turn {n} hangs"))?;
            let ended = ended.map_err(|error| format!("the honest turn {n} failed: {error}"))?;
            if !ended.success {
                return Err(format!("the honest turn {n} failed: {ended:?}"));
            }
            let path = place.at("honest").join(honest_file(n));
            let wrote = fs::read_to_string(&path);
            if wrote.as_deref().ok() != Some(&honest_text(n)) {
                return Err(format!(
                    "the honest turn {n} wrote its file, and now it is {wrote:?}"
                ));
            }
        }
        runtime.remove_session(id).await.map_err(text)?;
    }
    Ok(turns)
}

fn check_outside(place: &Place, before: &place::Outside) -> Result<(), String> {
    let now = place.outside().map_err(text)?;
    if now == *before {
        return Ok(());
    }
    let is_new = |path: &&PathBuf| before.get(*path) != now.get(*path);
    let new: Vec<_> = now.keys().filter(is_new).collect();
    let gone: Vec<_> = before
        .keys()
        .filter(|path| !now.contains_key(*path))
        .collect();
    Err(format!(
        "outside of the root {new:?} changed and {gone:?} is gone"
    ))
}

/// What the process may take until it is warm: beside a hostile model that is half a minute and 240 MB, and no more from then on.
const WARM: u64 = 320_000_000;

impl Summary {
    /// Says what does not hold.
    pub fn verdict(&self) -> Result<(), String> {
        if self.honest_turns == 0 || self.tried == 0 {
            return Err("nobody has done anything".to_owned());
        }
        series::verdict(&self.samples, WARM)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, samples) = (self.plan.length, &self.samples);
        let warm = WARM;
        Table {
            length,
            samples,
            warm,
        }
        .fmt(f)?;
        write!(
            f,
            "seed {}: {} hostile calls in {} turns, {} honest turns all completed, nothing outside changed",
            self.plan.seed, self.tried, self.hostile_turns, self.honest_turns
        )
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}
