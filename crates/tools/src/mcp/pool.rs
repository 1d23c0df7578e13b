//! The servers that are connected, and when one that failed is tried again.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use windlass_core::digest::Digest128;
use windlass_core::egress::EgressService;
use windlass_core::mcp::{McpAuthMode, McpScope, McpTransportType, ScopedMcpServer};
use windlass_core::traits::ToolContext;

use super::connection::{Connection, Listed};
use super::flood::{Attempt, Flood};
use super::settings::McpSettings;
use super::{http, keys, stdio};
use crate::environments::Environments;
use crate::secrets;
use crate::shell::ShellSettings;

/// The longest pause before a server that failed is tried again.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);
/// A pause that is waited for rather than told.
const WAITED_FOR: Duration = Duration::from_secs(3);
/// A server that has lived for this long did not fail to start.
const STEADY: Duration = Duration::from_secs(60);
/// How often is looked for servers that nobody uses.
const SWEEP: Duration = Duration::from_secs(30);

/// The servers that are connected.
pub(super) struct Pool {
    pub(super) environments: Environments,
    shell: ShellSettings,
    egress: Arc<dyn EgressService>,
    pub(super) settings: McpSettings,
    places: Mutex<HashMap<Digest128, Arc<Place>>>,
    is_sweeping: AtomicBool,
    is_closed: AtomicBool,
    closing: Notify,
}

/// The place of one server for those who may share it.
struct Place {
    /// The server, as it is configured.
    server: String,
    state: tokio::sync::Mutex<State>,
    used: Mutex<Instant>,
}

#[derive(Default)]
struct State {
    connection: Option<(Arc<Connection>, Instant)>,
    /// How often it failed in a row, when last, and why.
    failures: u32,
    failed: Option<(Instant, String)>,
}

/// Why there is no connection.
enum Unreached {
    /// Nobody tried.
    Waits(String),
    /// It failed.
    Failed(String),
}

impl Pool {
    /// Keeps an answer that is too long to show, where the host keeps outputs, and returns what is shown of it.
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
            // Before it is cut: half of a secret has no mask.
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
            is_closed: AtomicBool::new(false),
            closing: Notify::new(),
        }
    }

    /// Returns what a server offers, or why it cannot be had.
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

    /// Returns the connection to a server. One that is gone is made anew, with pauses that grow.
    pub(super) async fn connection(
        self: &Arc<Self>,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Arc<Connection>, String> {
        let place = self.place(name, server, scope)?;
        let began = Instant::now();
        let mut state = place.state.lock().await;
        // Those who waited for one attempt share what it came to.
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
            // One that worked for long is started again at once.
            match since.elapsed() >= STEADY {
                true => (state.failures, state.failed) = (0, None),
                false => state.note(why),
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

    /// Waits until nothing more may be started.
    async fn closed(&self) {
        loop {
            let closing = self.closing.notified();
            tokio::pin!(closing);
            closing.as_mut().enable();
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            closing.await;
        }
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

    fn places(&self) -> MutexGuard<'_, HashMap<Digest128, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(
        self: &Arc<Self>,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> Result<Arc<Place>, String> {
        let key = key(name, server, scope);
        let mut places = self.places();
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

    /// Returns the servers that somebody is connected to now.
    pub(super) fn connected(&self) -> BTreeSet<String> {
        let places = self.places();
        let alive = places.values().filter(|place| place.is_alive());
        alive.map(|place| place.server.clone()).collect()
    }

    /// Tells whether a server can be asked without starting or reaching it first.
    pub(super) fn is_connected(
        &self,
        name: &str,
        server: &ScopedMcpServer,
        scope: &McpScope,
    ) -> bool {
        let places = self.places();
        let place = places.get(&key(name, server, scope));
        place.is_some_and(|place| place.is_alive())
    }

    /// Lets servers go that nobody has used for long.
    fn let_idle_go(&self) {
        let idle = self.settings.idle;
        self.places()
            .retain(|_, place| !place.is_unused() || place.last_use().elapsed() < idle);
    }

    /// Ends all connections, and waits until their programs are gone.
    pub(super) async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closing.notify_waiters();
        let places: Vec<_> = self.places().drain().map(|(_, place)| place).collect();
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
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last_use(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether there is a connection; one that is being made is none yet.
    fn is_alive(&self) -> bool {
        let Ok(state) = self.state.try_lock() else {
            return false;
        };
        let connection = state.connection.as_ref();
        connection.is_some_and(|(connection, _)| connection.is_alive())
    }

    /// Tells whether nobody starts it, or waits for an answer of it.
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

/// Names those who may share a connection: the same server, for the same owner, in the same place.
fn key(name: &str, server: &ScopedMcpServer, scope: &McpScope) -> Digest128 {
    let place = match server.transport_type {
        McpTransportType::Stdio => serde_json::to_value(&scope.environment),
        McpTransportType::Http => serde_json::to_value(&scope.network_access),
    };
    Digest128::of_json(&(name, server, &scope.owner, place.unwrap_or_default()))
}
