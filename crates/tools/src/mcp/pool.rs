//! The connected servers, and the retries of servers that failed.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use windlass_core::digest::Digest128;
use windlass_core::egress::EgressService;
use windlass_core::mcp::{McpAuthMode, McpScope, McpTransportType, ScopedMcpServer};
use windlass_core::traits::ToolContext;

use super::connection::{McpConnection, ToolList};
use super::rate_limit::{ConnectAttempt, RateLimit};
use super::settings::McpSettings;
use super::{http, keys, stdio};
use crate::environments::Environments;
use crate::secrets;
use crate::shell::ShellSettings;
use windlass_core::lock::lock;

/// Maximum pause before a failed server is retried.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);
/// A call waits for a pause up to this length; a longer pause is an error.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(3);
/// Uptime after which the end of a server does not count as a failed start.
const STABLE_UPTIME: Duration = Duration::from_secs(60);
/// Interval between searches for idle servers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// The connected servers.
pub(super) struct Pool {
    pub(super) environments: Environments,
    shell: ShellSettings,
    egress: Arc<dyn EgressService>,
    pub(super) settings: McpSettings,
    slots: Mutex<HashMap<Digest128, Arc<ConnectionSlot>>>,
    is_sweeping: AtomicBool,
    is_closed: watch::Sender<bool>,
}

/// The shared connection of all callers with the same key.
struct ConnectionSlot {
    /// Name of the server in the configuration.
    server: String,
    state: tokio::sync::Mutex<State>,
    used: Mutex<Instant>,
}

#[derive(Default)]
struct State {
    connection: Option<(Arc<McpConnection>, Instant)>,
    /// Number of consecutive failures; `failed` is the time and reason of the last one.
    failures: u32,
    failed: Option<(Instant, String)>,
}

impl Pool {
    /// Stores an answer that is too long to show, if the host stores outputs. Returns the part to show.
    pub(super) async fn shortened(
        &self,
        server: Option<&ScopedMcpServer>,
        context: &ToolContext,
        mut text: String,
    ) -> String {
        let max_bytes = self.shell.max_output_bytes;
        let Some(outputs) = self.environments.outputs() else {
            return text;
        };
        if text.len() <= max_bytes {
            return text;
        }
        if let Some(server) = server {
            keys::mask(server, &mut text);
        }
        let (session_id, places) = (context.session_id, context.secret_places.clone());
        let stored = tokio::task::spawn_blocking(move || {
            // Masked before it is truncated: half of a secret would not be recognized.
            let masked = secrets::masked(places.as_deref(), text.as_bytes());
            let text = String::from_utf8_lossy(&masked).into_owned();
            outputs.shortened(session_id, text, max_bytes)
        });
        let lost = |_| "the answer is too long, and could not be stored".to_owned();
        stored.await.unwrap_or_else(lost)
    }

    pub(super) fn new(
        environments: Environments,
        shell: ShellSettings,
        egress: Arc<dyn EgressService>,
        settings: McpSettings,
    ) -> Self {
        Self {
            environments,
            shell,
            egress,
            settings,
            slots: Mutex::default(),
            is_sweeping: AtomicBool::new(false),
            is_closed: watch::Sender::new(false),
        }
    }

    /// Returns the tools of a server, or why they are not available.
    pub(super) async fn offered(
        self: &Arc<Self>,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Arc<ToolList>, String> {
        let connection = self.connection(name, server, scope).await?;
        self.listed(&connection, server).await
    }

    pub(super) async fn listed(
        &self,
        connection: &McpConnection,
        server: &ScopedMcpServer,
    ) -> Result<Arc<ToolList>, String> {
        let timeout = self.settings.start_timeout_of(server);
        connection
            .listed(self.settings.list_cache_time, timeout)
            .await
    }

    /// Returns the connection to a server. A lost connection is reopened, with growing pauses.
    pub(super) async fn connection(
        self: &Arc<Self>,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Arc<McpConnection>, String> {
        let slot = self.slot(name, server, scope)?;
        let began = Instant::now();
        let mut state = slot.state.lock().await;
        // Callers that waited for the same attempt share its result.
        if let Some((at, why)) = &state.failed
            && state.connection.is_none()
            && *at >= began
        {
            return Err(why.clone());
        }
        if let Some((connection, since)) = &state.connection {
            if connection.is_alive() {
                return Ok(Arc::clone(connection));
            }
            let (since, why) = (*since, connection.end().await);
            state.connection = None;
            // A server that ran for a long time is restarted at once.
            if since.elapsed() >= STABLE_UPTIME {
                (state.failures, state.failed) = (0, None);
            } else {
                state.record_failure(why);
            }
        }
        let connecting = async {
            self.wait_for_retry(&state).await?;
            let timeout = self.settings.start_timeout_of(server);
            let connected = tokio::time::timeout(timeout, self.connect(server, scope)).await;
            Ok(connected.unwrap_or_else(|_| {
                let timeout = timeout.as_millis();
                Err(format!("it did not start within {timeout} ms"))
            }))
        };
        let mut closed = self.is_closed.subscribe();
        let attempt = tokio::select! {
            biased;
            // `self` owns the sender, so the channel cannot be closed.
            _ = closed.wait_for(|closed| *closed) => Err("the host is shutting down".to_owned()),
            attempt = connecting => attempt,
        };
        let connection = attempt?.inspect_err(|why| state.record_failure(why.clone()))?;
        let connection = Arc::new(connection);
        state.connection = Some((Arc::clone(&connection), Instant::now()));
        Ok(connection)
    }

    async fn wait_for_retry(&self, state: &State) -> Result<(), String> {
        let Some((at, why)) = &state.failed else {
            return Ok(());
        };
        let doubled = 1_u32 << state.failures.saturating_sub(1).min(16);
        let pause = self
            .settings
            .back_off
            .saturating_mul(doubled)
            .min(MAX_BACK_OFF);
        let left = pause.saturating_sub(at.elapsed());
        if left > MAX_RETRY_WAIT {
            let (failures, seconds) = (state.failures, left.as_secs());
            return Err(format!(
                "it failed {failures} times in a row and is retried in {seconds} s; the last error: {why}"
            ));
        }
        tokio::time::sleep(left).await;
        Ok(())
    }

    async fn connect(
        &self,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<McpConnection, String> {
        if server.auth_mode != McpAuthMode::None {
            return Err(
                "it requires authentication (`auth_mode`), which is not supported; configure a header"
                    .to_owned(),
            );
        }
        let rate_limit = Arc::new(RateLimit::new());
        let attempt = ConnectAttempt::new(&rate_limit);
        let client = &self.settings.client_name;
        let connection = match server.transport_type {
            McpTransportType::Stdio => {
                let (environments, shell) = (&self.environments, &self.shell);
                let (pipes, stderr) =
                    stdio::start(environments, shell, server, scope, &rate_limit).await?;
                McpConnection::initialize(pipes, client, rate_limit, Some(stderr)).await?
            }
            McpTransportType::Http => {
                let silence = self.settings.longest_silence(server);
                let transport = http::transport(&self.egress, server, scope, &rate_limit, silence)?;
                McpConnection::initialize(transport, client, rate_limit, None).await?
            }
        };
        attempt.succeeded();
        Ok(connection)
    }

    fn slot(
        self: &Arc<Self>,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Arc<ConnectionSlot>, String> {
        let key = key(name, server, scope);
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(&key) {
            slot.mark_used();
            return Ok(Arc::clone(slot));
        }
        if slots.len() >= self.settings.max_connections {
            let unused = slots.iter().filter(|(_, slot)| slot.is_unused());
            let oldest = unused.min_by_key(|(_, slot)| slot.last_use());
            let Some(oldest) = oldest.map(|(key, _)| *key) else {
                let most = self.settings.max_connections;
                return Err(format!("{most} servers are in use, which is the limit"));
            };
            slots.remove(&oldest);
        }
        let slot = Arc::new(ConnectionSlot {
            server: name.to_owned(),
            state: tokio::sync::Mutex::default(),
            used: Mutex::new(Instant::now()),
        });
        slots.insert(key, Arc::clone(&slot));
        drop(slots);
        if !self.is_sweeping.swap(true, Ordering::SeqCst) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        Ok(slot)
    }

    /// Returns the names of the currently connected servers.
    pub(super) fn connected(&self) -> BTreeSet<String> {
        let slots = lock(&self.slots);
        let alive = slots.values().filter(|slot| slot.is_alive());
        alive.map(|slot| slot.server.clone()).collect()
    }

    /// Returns whether a server is connected, so that a request does not need to start it.
    pub(super) fn is_connected(
        &self,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> bool {
        let slots = lock(&self.slots);
        let slot = slots.get(&key(name, server, scope));
        slot.is_some_and(|slot| slot.is_alive())
    }

    /// Closes servers that have been unused for the idle time.
    fn close_idle(&self) {
        let idle = self.settings.idle;
        lock(&self.slots).retain(|_, slot| !slot.is_unused() || slot.last_use().elapsed() < idle);
    }

    /// Closes all connections and waits until their programs are gone.
    pub(super) async fn close(&self) {
        self.is_closed.send_replace(true);
        let slots: Vec<_> = lock(&self.slots).drain().map(|(_, slot)| slot).collect();
        let mut closing = tokio::task::JoinSet::new();
        for slot in slots {
            closing.spawn(async move {
                let mut state = slot.state.lock().await;
                if let Some((connection, _)) = state.connection.take() {
                    connection.close().await;
                }
            });
        }
        while closing.join_next().await.is_some() {}
    }
}

impl ConnectionSlot {
    fn mark_used(&self) {
        *lock(&self.used) = Instant::now();
    }

    fn last_use(&self) -> Instant {
        *lock(&self.used)
    }

    /// Returns whether there is a connection; false while one is being opened.
    fn is_alive(&self) -> bool {
        let Ok(state) = self.state.try_lock() else {
            return false;
        };
        let connection = state.connection.as_ref();
        connection.is_some_and(|(connection, _)| connection.is_alive())
    }

    /// Returns whether no caller is starting the server or waiting for its answer.
    fn is_unused(self: &Arc<Self>) -> bool {
        let Ok(state) = self.state.try_lock() else {
            return false;
        };
        let connection = state.connection.as_ref();
        Arc::strong_count(self) == 1
            && connection.is_none_or(|(connection, _)| Arc::strong_count(connection) == 1)
    }
}

impl State {
    fn record_failure(&mut self, why: String) {
        self.failures = self.failures.saturating_add(1);
        self.failed = Some((Instant::now(), why));
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.close_idle();
    }
}

/// Returns the key of a shared connection: the same server, owner, and environment or network rules.
fn key(name: &str, server: &ScopedMcpServer, scope: &McpScope) -> Digest128 {
    let part = match server.transport_type {
        McpTransportType::Stdio => serde_json::to_value(&scope.environment),
        McpTransportType::Http => serde_json::to_value(&scope.network_access),
    };
    Digest128::of_json(&(name, server, &scope.owner, part.unwrap_or_default()))
}
