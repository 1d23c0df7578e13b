//! A hostile model next to honest ones. Whatever calls and values it tries, honest turns complete, nothing outside its root changes, and the resource
//! usage of the process levels off.

mod directories;
mod escapes;
mod model;
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
use crate::series::{self, UsageTable};
use crate::soak::RETENTION;
use crate::usage::Usage;
use directories::TrialDirectories;
pub use escapes::{HOST, attempt_all as attempt_escapes, run_host};
use model::{MixedModel, honest_file, honest_text};

/// Concurrent hostile and honest sessions.
const HOSTILE: u64 = 4;
const HONEST: u64 = 2;
/// How many samples are taken.
const SAMPLES: u32 = 60;
/// Turns of a session before it is removed.
const TURNS: u64 = 8;
/// Time limit of a model's command, which many hostile ones use up.
const COMMAND_TIME: Duration = Duration::from_secs(2);
/// An honest turn that takes longer counts as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// By which commands of this trial are found when it is over.
const OWNER: &str = "windlass-hostile";

/// Parameters of a test.
#[derive(Debug, Clone, Copy)]
pub struct HostilePlan {
    /// Duration of the test.
    pub length: Duration,
    /// Seed for the hostile model.
    pub seed: u64,
    /// Confinement of commands; by default the strongest one available.
    pub confinement: Option<Confinement>,
}

/// Results of a test.
#[derive(Debug, Clone)]
pub struct HostileSummary {
    plan: HostilePlan,
    /// How many calls the hostile model made.
    pub tried: u64,
    hostile_turns: u64,
    honest_turns: u64,
    samples: Vec<Usage>,
}

/// Runs a test in its own directory, which is removed; the error describes the failure.
pub async fn run(plan: HostilePlan) -> Result<HostileSummary, String> {
    escapes::attempt_all(plan.confinement).await?;
    let directories = Arc::new(TrialDirectories::new().map_err(text)?);
    let before = directories.outside().map_err(text)?;
    let directory = directories.at("store");
    let options = SqliteOptions::new(&directory).with_retention(RETENTION);
    let store = SqliteStore::open(options).await.map_err(text)?;
    let tried = Arc::new(AtomicU64::new(0));
    let runtime = runtime(plan, &directories, &store, &tried)?.build().await;
    let runtime = runtime.map_err(text)?;

    let until = Instant::now() + plan.length;
    let mut hostile = Vec::new();
    for n in 0..HOSTILE {
        let work = run_hostile_sessions(runtime.clone(), plan.seed ^ (n << 40), until);
        hostile.push(tokio::spawn(work));
    }
    let mut honest = Vec::new();
    for n in 0..HONEST {
        let work = run_honest_sessions(runtime.clone(), Arc::clone(&directories), n << 32, until);
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
        check_outside(&directories, &before)?;
    }
    let (mut hostile_turns, mut honest_turns) = (0, 0);
    for work in hostile {
        hostile_turns += work.await.map_err(text)??;
    }
    for work in honest {
        honest_turns += work.await.map_err(text)??;
    }
    check_outside(&directories, &before)?;
    let report = store.verify().await.map_err(text)?;
    store.close().await;
    if let Some(finding) = report.findings.first() {
        return Err(format!("the store does not verify: {finding:?}"));
    }
    match end_leftovers(OWNER) {
        0 => {}
        left => return Err(format!("{left} processes of commands were left")),
    }
    Ok(HostileSummary {
        plan,
        tried: tried.load(Ordering::Relaxed),
        hostile_turns,
        honest_turns,
        samples,
    })
}

fn runtime(
    plan: HostilePlan,
    directories: &TrialDirectories,
    store: &SqliteStore,
    tried: &Arc<AtomicU64>,
) -> Result<InProcessRuntimeBuilder, String> {
    let mut drivers = DriverRegistry::new();
    let tried = Arc::clone(tried);
    drivers.register(ProviderType::LlmSim, move |_, _| {
        let tried = Arc::clone(&tried);
        Box::new(MixedModel { tried })
    });
    let environments = directories.environments()?;
    let mut shell = ShellSettings {
        owner: Some(OWNER.to_owned()),
        timeout: COMMAND_TIME,
        max_timeout: COMMAND_TIME,
        ..ShellSettings::default()
    };
    if let Some(confinement) = plan.confinement {
        shell.ways = vec![confinement];
    }
    // There is no user to ask.
    let never = || json!({ "approval": "never" });
    let harness = HarnessBuilder::new("hostile", "Do as you like.")
        .id(harness_id())
        .capability(AgentCapabilityConfig::with_config("files", never()))
        .capability(AgentCapabilityConfig::with_config("shell", never()));
    Ok(InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(store))
        .settings(RuntimeSettings::default().tool_timeout(Some(Duration::from_secs(30))))
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

async fn new_session(runtime: &InProcessRuntime) -> Result<SessionId, String> {
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

/// Tries one thing after another. How a turn ends does not matter, as long as it ends.
async fn run_hostile_sessions(
    runtime: InProcessRuntime,
    seed: u64,
    until: Instant,
) -> Result<u64, String> {
    let mut turns = 0;
    while Instant::now() < until {
        let id = new_session(&runtime).await?;
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

/// Works independently of the hostile sessions; each turn completes, and its file exists.
async fn run_honest_sessions(
    runtime: InProcessRuntime,
    directories: Arc<TrialDirectories>,
    first: u64,
    until: Instant,
) -> Result<u64, String> {
    let mut turns = 0;
    while Instant::now() < until {
        let id = new_session(&runtime).await?;
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
            let path = directories.at("honest").join(honest_file(n));
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

fn check_outside(
    directories: &TrialDirectories,
    before: &directories::Outside,
) -> Result<(), String> {
    let now = directories.outside().map_err(text)?;
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

/// Memory that the process may use until it is warm. Next to a hostile model, warming up takes half a minute and 240 MB, and usage does not grow
/// after that.
const WARM: u64 = 320_000_000;

impl HostileSummary {
    /// Returns the violated invariant, if any.
    pub fn verdict(&self) -> Result<(), String> {
        if self.honest_turns == 0 || self.tried == 0 {
            return Err("no session did any work".to_owned());
        }
        series::verdict(&self.samples, WARM)
    }
}

impl fmt::Display for HostileSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, samples) = (self.plan.length, &self.samples);
        let warm = WARM;
        UsageTable {
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
