//! Public information about the daemon.

use windlass_protocol::info::Ready;
use windlass_protocol::{
    Health, RUNTIME_API_VERSION, RuntimeCapabilities, RuntimeExperimentalCapabilities, RuntimeInfo,
};

use crate::operations::prelude::*;
use crate::settings::Access;

const SERVICE: &str = "windlass";
/// The version of the original program whose API this one matches.
const MATCHED: &str = "0.9.3";
/// Features in addition to the original API that clients can rely on. Names are added, never removed.
const FEATURES: [&str; 13] = [
    "sse_id",
    "last_event_id",
    "idempotency_key",
    "turn_resume",
    "thread_tools",
    "tool_schema_validation",
    "environments",
    "allowed_tools",
    "error_codes",
    "thread_cursor",
    "thread_delete",
    "thread_export",
    "thread_replay",
];

/// Features that are present only if this process runs jobs.
const WORK: [&str; 2] = ["tasks", "automations"];

fn features(app: &Service) -> Vec<String> {
    let jobs = app.settings.jobs.as_ref();
    let runs_tasks = jobs.is_some_and(|jobs| jobs.runs_jobs);
    let work = WORK.iter().filter(|_| runs_tasks);
    let names = FEATURES.iter().chain(work);
    names.map(ToString::to_string).collect()
}

/// Reports that the process is alive.
impl Handle<op::GetHealth> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::GetHealth>) -> Result<Health> {
        Ok(Health {
            status: "ok".to_owned(),
            service: SERVICE.to_owned(),
            mode: "local".to_owned(),
        })
    }
}

/// Reports whether the daemon accepts requests.
impl Handle<op::GetReady> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::GetReady>) -> Result<Ready> {
        if self.stopping.is_cancelled() {
            return Err(ApiError::new(
                ErrorCode::ShuttingDown,
                "the daemon is stopping",
            ));
        }
        self.loops.check()?;
        self.readiness.check(&*self.store).await?;
        Ok(Ready {
            status: "ready".to_owned(),
        })
    }
}

/// Returns the version and the features of the daemon.
impl Handle<op::GetRuntimeInfo> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::GetRuntimeInfo>) -> Result<RuntimeInfo> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(RuntimeInfo {
            service: SERVICE.to_owned(),
            runtime_api_version: RUNTIME_API_VERSION.to_owned(),
            windlass_version: version.clone(),
            codewhale_version: MATCHED.to_owned(),
            version,
            bind_host: self.settings.host.clone(),
            port: self.settings.port,
            console_url: self.settings.console_url(),
            auth_required: !matches!(self.settings.access, Access::Open),
            transports: vec!["http".to_owned(), "sse".to_owned()],
            capabilities: RuntimeCapabilities {
                threads: true,
                turns: true,
                turn_steer: true,
                turn_interrupt: true,
                event_replay: true,
                external_tools: true,
                environments: true,
                worker_runtime: self.jobs.is_some(),
            },
            experimental: RuntimeExperimentalCapabilities {
                environments: true,
                agent_run_cancel: true,
                agent_run_nudge: true,
            },
            features: features(self),
        })
    }
}
