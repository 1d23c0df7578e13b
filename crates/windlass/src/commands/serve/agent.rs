//! The runtime of the daemon, and the agent that answers in it.

use std::time::Duration;

use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::typed_id::HarnessId;
use windlass_runtime::{
    HarnessBuilder, InProcessRuntime, InProcessRuntimeBuilder, RecoveryPolicy, RuntimeBackends,
    RuntimeSettings, SqliteStore,
};
use windlass_server::Models;

use crate::cli::note;
use crate::config::Config;
use crate::model::{self, Choice};

/// How long a turn waits for somebody.
const WAIT: Duration = Duration::from_secs(300);
/// What the agent is told when nobody says otherwise.
const PROMPT: &str = "You are a helpful agent. Be brief.";
/// Threads of every earlier daemon stand on the same harness.
const HARNESS: HarnessId = HarnessId::from_seed(0x0077_696e_646c_6173_735f_6461_656d_6f6e);

/// What the agent is made from.
pub(super) struct Agent<'a> {
    pub(super) config: &'a Config,
    pub(super) model: Option<&'a str>,
    pub(super) recovery: RecoveryPolicy,
}

/// The runtime, and how the server reaches into it.
pub(super) struct Made {
    pub(super) runtime: InProcessRuntime,
    pub(super) harness_id: HarnessId,
    pub(super) models: Models,
}

impl Agent<'_> {
    /// Makes the runtime on a store. When this returns, the turns of an earlier life go on.
    pub(super) async fn on(self, store: &SqliteStore) -> anyhow::Result<Made> {
        let mut harness = HarnessBuilder::new("daemon", PROMPT)
            .with_capability("ask_user")
            .build();
        harness.id = HARNESS;
        let settings = RuntimeSettings {
            wait_timeout: Some(WAIT),
            recovery: self.recovery,
            ..RuntimeSettings::default()
        };
        let builder = InProcessRuntimeBuilder::new()
            .backends(RuntimeBackends::on_sqlite(store))
            .settings(settings)
            .harness(harness);
        let variable = |name: &str| std::env::var(name).ok();
        let (builder, models) = match model::choose(self.model, self.config, variable)? {
            Choice::Real(model) => {
                let models = Models {
                    default: model.model.clone(),
                    provider: Some(model.provider_type.to_string()),
                    ..Models::default()
                };
                let builder = builder
                    .driver_registry(model::drivers(self.config)?)
                    .default_model(model);
                (builder, models)
            }
            choice => {
                if matches!(choice, Choice::Demonstration) {
                    note(model::DEMONSTRATION);
                }
                (builder.llm_sim(LlmSimConfig::echo()), Models::default())
            }
        };
        Ok(Made {
            runtime: builder.build().await?,
            harness_id: HARNESS,
            models,
        })
    }
}
