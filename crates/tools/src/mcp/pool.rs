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

use super::connection::{Connection, Listed};
use super::flood::{Attempt, Flood};
use super::settings::McpSettings;
use super::{http, keys, stdio};
use crate::environments::Environments;
use crate::lock::lock;
use crate::secrets;
use crate::shell::ShellSettings;

/// Maximum pause before a failed server is retried.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);
/// A call waits for a pause up to this length; a longer pause is an error.
const WAITED_FOR: Duration = Duration::from_secs(3);
/// Uptime after which the end of a server does not count as a failed start.
const STEADY: Duration = Duration::from_secs(60);
/// Interval between searches for idle servers.
const SWEEP: Duration = Duration::from_secs(30);

/// The connected servers.
pub(super) struct Pool {
    pub(super) environments: Environments,
    shell: ShellSettings,
    egress: Arc<dyn EgressService>,
    pub(super) settings: McpSettings,
    places: Mutex<HashMap<Digest128, Arc<Place>>>,
    is_sweeping: AtomicBool,
    is_closed: watch::Sender<bool>,
}

/// The shared connection of all callers with the same key.
struct Place {
    /// Name of the server in the configuration.
    server: String,
    state: tokio::sync::Mutex<State>,
    used: Mutex<Instant>,
}

#[derive(Default)]
struct State {
    connection: Option<(Arc<Connection>, Instant)>,
    /// Number of consecutive failures; `failed` is the time and reason of the last one.
    failures: u32,
    failed: Option<(Instant, String)>,
}

/// Why there is no connection.
enum Unreached {
    /// No attempt was made.
    Waits(String),
    /// The attempt failed.
    Failed(String),
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
            keys::hide(server, &mut text);
        }
        let (session_id, places) = (context.session_id, context.secret_places.clone());
        let keeping = tokio::task::spawn_blocking(move || {
            // Masked before it is truncated: half of a secret would not be recognized.
            let masked = secrets::masked(places.as_deref(), text.as_bytes());
            let text = String::from_utf8_lossy(&masked).into_owned();
            outputs.shortened(session_id, text, max_bytes)
        });
        let lost = |_| "the answer is too long, and could not be kept".to_owned();
        keeping.await.unwrap_or_else(lost)
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
            places: Mutex::default(),
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
    ) -> Result<Arc<Listed>, String> {
        let connection = self.connection(name, server, scope).await?;
        self.listed(&connection, server).await
    }

    pub(super) async fn listed(
        &self,
        connection: &Connection,
        server: &ScopedMcpServer,
    ) -> Result<Arc<Listed>, String> {
        let timeout = self.settings.start_timeout_of(server);
        connection.listed(self.settings.list_kept, timeout).await
    }

    /// Returns the connection to a server. A lost connection is reopened, with growing pauses.
    pub(super) async fn connection(
        self: &Arc<Self>,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Arc<Connection>, String> {
        let place = self.place(name, server, scope)?;
        let began = Instant::now();
        let mut state = place.state.lock().await;
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
            if since.elapsed() >= STEADY {
                (state.failures, state.failed) = (0, None);
            } else {
                state.note(why);
            }
        }
        let reaching = async {
            self.wait_for_turn(&state).await.map_err(Unreached::Waits)?;
            let timeout = self.settings.start_timeout_of(server);
            let reached = tokio::time::timeout(timeout, self.reach(server, scope)).await;
            let late = || {
                Err(format!(
                    "it did not start within {} ms",
                    timeout.as_millis()
                ))
            };
            reached
                .unwrap_or_else(|_| late())
                .map_err(Unreached::Failed)
        };
        let reached = tokio::select! {
            biased;
            () = self.closed() => Err(Unreached::Waits("the host is shutting down".to_owned())),
            reached = reaching => reached,
        };
        match reached {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some((Arc::clone(&connection), Instant::now()));
                Ok(connection)
            }
            Err(Unreached::Waits(why)) => Err(why),
            Err(Unreached::Failed(why)) => {
                state.note(why.clone());
                Err(why)
            }
        }
    }

    /// Waits until the pool is closed.
    async fn closed(&self) {
        // `self` owns the sender, so the channel cannot be closed.
        let _ = self.is_closed.subscribe().wait_for(|closed| *closed).await;
    }

    async fn wait_for_turn(&self, state: &State) -> Result<(), String> {
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
        if left > WAITED_FOR {
            let (failures, seconds) = (state.failures, left.as_secs());
            return Err(format!(
                "it failed {failures} times in a row and is tried again in {seconds} s; the last time: {why}"
            ));
        }
        tokio::time::sleep(left).await;
        Ok(())
    }

    async fn reach(
        &self,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Connection, String> {
        if server.auth_mode != McpAuthMode::None {
            return Err(
                "it wants a login (`auth_mode`), which is not supported; give it a header"
                    .to_owned(),
            );
        }
        let flood = Arc::new(Flood::new());
        let attempt = Attempt::new(&flood);
        let client = &self.settings.client_name;
        let connection = match server.transport_type {
            McpTransportType::Stdio => {
                let (environments, shell) = (&self.environments, &self.shell);
                let started = stdio::start(environments, shell, server, scope, &flood).await?;
                let complaints = Some(started.complaints);
                Connection::greet(started.pipes, client, flood, complaints).await?
            }
            McpTransportType::Http => {
                let silence = self.settings.longest_silence(server);
                let transport = http::transport(&self.egress, server, scope, &flood, silence)?;
                Connection::greet(transport, client, flood, None).await?
            }
        };
        attempt.succeeded();
        Ok(connection)
    }

    fn place(
        self: &Arc<Self>,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Arc<Place>, String> {
        let key = key(name, server, scope);
        let mut places = lock(&self.places);
        if let Some(place) = places.get(&key) {
            place.touch();
            return Ok(Arc::clone(place));
        }
        if places.len() >= self.settings.max_connections {
            let unused = places.iter().filter(|(_, place)| place.is_unused());
            let oldest = unused.min_by_key(|(_, place)| place.last_use());
            let Some(oldest) = oldest.map(|(key, _)| *key) else {
                let most = self.settings.max_connections;
                return Err(format!(
                    "{most} servers are in use already, and no more may be"
                ));
            };
            places.remove(&oldest);
        }
        let place = Arc::new(Place {
            server: name.to_owned(),
            state: tokio::sync::Mutex::default(),
            used: Mutex::new(Instant::now()),
        });
        places.insert(key, Arc::clone(&place));
        drop(places);
        if !self.is_sweeping.swap(true, Ordering::SeqCst) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        Ok(place)
    }

    /// Returns the names of the currently connected servers.
    pub(super) fn connected(&self) -> BTreeSet<String> {
        let places = lock(&self.places);
        let alive = places.values().filter(|place| place.is_alive());
        alive.map(|place| place.server.clone()).collect()
    }

    /// Returns whether a server is connected, so that a request does not need to start it.
    pub(super) fn is_connected(
        &self,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> bool {
        let places = lock(&self.places);
        let place = places.get(&key(name, server, scope));
        place.is_some_and(|place| place.is_alive())
    }

    /// Closes servers that have been unused for the idle time.
    fn let_idle_go(&self) {
        let idle = self.settings.idle;
        lock(&self.places)
            .retain(|_, place| !place.is_unused() || place.last_use().elapsed() < idle);
    }

    /// Closes all connections and waits until their programs are gone.
    pub(super) async fn close(&self) {
        self.is_closed.send_replace(true);
        let places: Vec<_> = lock(&self.places).drain().map(|(_, place)| place).collect();
        let mut closing = tokio::task::JoinSet::new();
        for place in places {
            closing.spawn(async move {
                let mut state = place.state.lock().await;
                if let Some((connection, _)) = state.connection.take() {
                    connection.close().await;
                }
            });
        }
        while closing.join_next().await.is_some() {}
    }
}

impl Place {
    fn touch(&self) {
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
    fn note(&mut self, why: String) {
        self.failures = self.failures.saturating_add(1);
        self.failed = Some((Instant::now(), why));
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.let_idle_go();
    }
}

/// Returns the key of a shared connection: the same server, owner, and environment or network rules.
fn key(name: &str, server: &ScopedMcpServer, scope: &McpScope) -> Digest128 {
    let place = match server.transport_type {
        McpTransportType::Stdio => serde_json::to_value(&scope.environment),
        McpTransportType::Http => serde_json::to_value(&scope.network_access),
    };
    Digest128::of_json(&(name, server, &scope.owner, place.unwrap_or_default()))
}
