//! The state that all clones of a runtime share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use chrono::TimeDelta;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventContext, EventData, EventRequest};
use windlass_core::history::History;
use windlass_core::mcp::McpConnector;
use windlass_core::message::Message;
use windlass_core::platform_definition::PlatformDefinition;
use windlass_core::remembered_calls::RememberedCalls;
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::{EventId, ExecId, SessionId};
use windlass_store::Reservation;
use windlass_turn::{Input, Thread};

use crate::agent_backends::AgentBackends;
use crate::backends::RuntimeBackends;
use crate::drivers::Drivers;
use crate::errors::from_journal;
use crate::metrics::TurnCounters;
use crate::mirror::Mirror;
use crate::provider_failure_log::ProviderFailureLog;
use crate::secrets::{KnownSecrets, SecretTrackingStorage};
use crate::settings::RuntimeSettings;
use crate::steps::arguments::ArgumentChecker;
use crate::subagents::{ChildSlots, SubagentHost, UsageTrees};
use crate::thread::{IdleLimits, Slot, Slots, ThreadCommand};
use crate::turn_context::{DiscoveryCache, Offers, ToolSetCache};
use windlass_core::Clock;

/// How long a session stays in memory after its last use when idle sessions exceed [`RuntimeSettings::idle_bytes`]. Its next turn
/// often follows at once and would read the journal again.
const UNLOAD_AFTER: Duration = Duration::from_secs(2);

/// Page size of the query for streams with open turns or queued inputs.
const OPEN_AT_ONCE: usize = 1024;

/// The state that all clones of a runtime share.
pub(crate) struct Inner {
    pub(crate) platform: PlatformDefinition,
    pub(crate) backends: RuntimeBackends,
    pub(crate) files: Arc<dyn SessionFileSystem>,
    pub(crate) drivers: Drivers,
    /// Secrets that no record may contain.
    pub(crate) secrets: Arc<KnownSecrets>,
    pub(crate) arguments: ArgumentChecker,
    pub(crate) offers: Offers,
    /// Cached tools of sessions without MCP servers.
    pub(crate) shared_tools_cache: ToolSetCache,
    /// Cached tools of sessions with MCP servers.
    pub(crate) session_tools_cache: ToolSetCache,
    pub(crate) discovery_cache: DiscoveryCache,
    pub(crate) settings: RuntimeSettings,
    pub(crate) clock: Arc<dyn Clock>,
    /// The external agents that turns can request.
    pub(crate) agents: AgentBackends,
    /// The connector to MCP servers.
    pub(crate) mcp: Option<Arc<dyn McpConnector>>,
    pub(crate) remembered: Option<Arc<dyn RememberedCalls>>,
    pub(crate) mirror: Mirror,
    pub(crate) default_session_id: Option<SessionId>,
    pub(crate) tickets: AtomicU64,
    /// IDs of the forks that are being created.
    pub(crate) forks: Mutex<HashSet<SessionId>>,
    pub(crate) turn_counters: TurnCounters,
    /// Providers whose failures were logged recently.
    pub(crate) provider_failures: ProviderFailureLog,
    /// Usage that turns share with their subagents.
    pub(crate) trees: UsageTrees,
    pub(crate) child_slots: ChildSlots,
    pub(crate) subagent_host: OnceLock<Arc<dyn SubagentHost>>,
    slots: Slots,
    is_stopping: AtomicBool,
}

/// Services that the runtime calls, apart from models and stores.
pub(crate) struct ExternalServices {
    pub(crate) agents: AgentBackends,
    pub(crate) mcp: Option<Arc<dyn McpConnector>>,
    pub(crate) remembered: Option<Arc<dyn RememberedCalls>>,
}

impl Inner {
    pub(crate) fn new(
        platform: PlatformDefinition,
        mut backends: RuntimeBackends,
        files: Arc<dyn SessionFileSystem>,
        settings: RuntimeSettings,
        clock: Arc<dyn Clock>,
        ExternalServices {
            agents,
            mcp,
            remembered,
        }: ExternalServices,
        default_session_id: Option<SessionId>,
    ) -> Arc<Self> {
        let secrets = Arc::new(KnownSecrets::new(&settings.secrets));
        backends.storage_store = Arc::new(SecretTrackingStorage {
            store: backends.storage_store,
            secrets: Arc::clone(&secrets),
        });
        let drivers = Drivers::new(platform.driver_registry().clone(), Arc::clone(&secrets));
        let inner = Arc::new(Self {
            mirror: mirror_of(&backends),
            platform,
            backends,
            files,
            drivers,
            secrets,
            arguments: ArgumentChecker::default(),
            offers: Offers::default(),
            shared_tools_cache: ToolSetCache::default(),
            session_tools_cache: ToolSetCache::default(),
            discovery_cache: DiscoveryCache::default(),
            settings,
            clock,
            agents,
            mcp,
            remembered,
            default_session_id,
            tickets: AtomicU64::new(0),
            forks: Mutex::default(),
            turn_counters: TurnCounters::default(),
            provider_failures: ProviderFailureLog::default(),
            trees: UsageTrees::default(),
            child_slots: ChildSlots::default(),
            subagent_host: OnceLock::new(),
            slots: Slots::default(),
            is_stopping: AtomicBool::new(false),
        });
        inner.backends.views.messages.runtime_link.attach(&inner);
        inner.backends.views.events.runtime_link.attach(&inner);
        inner
    }

    /// Returns the slot of a session's thread; fails if the session does not exist.
    pub(crate) async fn slot(&self, session_id: SessionId) -> Result<Arc<Slot>> {
        if let Some(slot) = self.slots.get(session_id) {
            return Ok(slot);
        }
        if !self.backends.session_store.has_session(session_id).await? {
            return Err(AgentLoopError::SessionNotFound(session_id));
        }
        self.forget_idle();
        let now = self.clock.now();
        Ok(self.slots.get_or_create(session_id, now, &self.secrets))
    }

    /// Rejects all further input; returns the threads in memory.
    pub(crate) fn stop(&self) -> Vec<Arc<Slot>> {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.slots.all()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn take_slot(&self, session_id: SessionId) -> Option<Arc<Slot>> {
        self.slots.take(session_id, &self.secrets)
    }

    /// Returns how many sessions are in memory.
    pub(crate) fn loaded_sessions(&self) -> usize {
        self.slots.len()
    }

    /// Records that a thread became idle, and evicts threads that have been idle longer than the limits allow.
    pub(crate) fn note_idle(self: &Arc<Self>, slot: &Slot) {
        if !self.backends.journal.is_on_disk() {
            return;
        }
        let (now, bytes) = (self.clock.now(), slot.idle_bytes());
        self.slots.note_idle(slot.session_id, now, bytes);
        self.forget_idle();
        if self.slots.begin_unloading(self.settings.idle_bytes) {
            let is_done = |inner: &Self| inner.slots.end_unloading(inner.settings.idle_bytes);
            tokio::spawn(evict(Arc::downgrade(self), UNLOAD_AFTER, is_done));
        }
        if let Some(span) = self.settings.idle_time
            && self.slots.begin_sweep()
        {
            let is_done = |inner: &Self| inner.slots.end_sweep();
            tokio::spawn(evict(Arc::downgrade(self), span, is_done));
        }
    }

    /// Evicts sessions that were unused for too long or exceed the limit.
    fn forget_idle(&self) {
        if !self.backends.journal.is_on_disk() {
            return;
        }
        let now = self.clock.now();
        let span = self.settings.idle_time.map(TimeDelta::from_std);
        let after = span.and_then(|span| now.checked_sub_signed(span.ok()?));
        let keep = IdleLimits {
            count: self.settings.idle_sessions,
            after,
            bytes: self.settings.idle_bytes,
            unload_after: now - UNLOAD_AFTER,
        };
        self.slots.trim(&keep, now, &self.secrets);
    }

    /// Creates an event that belongs to no turn and is not in the journal yet.
    pub(crate) fn event(&self, session_id: SessionId, data: EventData) -> Event {
        Event {
            id: EventId::from_uuid(self.clock.uuid()),
            event_type: data.event_type().to_owned(),
            ts: self.clock.now(),
            session_id,
            context: EventContext::default(),
            data,
            metadata: None,
            tags: None,
            sequence: None,
        }
    }

    /// Returns the minimum reservation of a step of this owner.
    pub(crate) fn minimum_reservation(&self, exec_id: ExecId, owner: Option<&str>) -> Reservation {
        Reservation {
            exec_id,
            owner: owner.map(str::to_owned),
            at: self.clock.now(),
            amount: self.settings.reserve,
        }
    }

    /// Returns the recorded conversation of a session, shared.
    pub(crate) async fn history(self: &Arc<Self>, session_id: SessionId) -> Result<History> {
        let slot = self.slot(session_id).await?;
        match slot.published() {
            Some(history) => Ok(history),
            None => Ok(self.read_thread(&slot).await?.history().clone()),
        }
    }

    /// Returns the recorded thread of a session, as [`read_thread`](Self::read_thread) does.
    pub(crate) async fn thread(self: &Arc<Self>, session_id: SessionId) -> Result<Thread> {
        let slot = self.slot(session_id).await?;
        self.read_thread(&slot).await
    }

    /// Returns the recorded thread of a session. It resumes no turn and does not block the writer.
    pub(crate) async fn read_thread(self: &Arc<Self>, slot: &Arc<Slot>) -> Result<Thread> {
        if slot.published().is_some() && !self.is_stopping() {
            let thread = slot.ask(self, |reply| ThreadCommand::Snapshot { reply });
            return Ok(*thread.await?);
        }
        let thread = slot.read(&*self.backends.journal).await;
        self.note_idle(slot);
        thread.map_err(from_journal)
    }

    /// Returns the sessions with an open turn or a queued input.
    pub(crate) async fn unfinished_sessions(&self) -> Result<Vec<SessionId>> {
        let mut sessions = Vec::new();
        let mut after = None;
        loop {
            let journal = &self.backends.journal;
            let open = journal.open(after.as_ref(), OPEN_AT_ONCE).await;
            let open = open.map_err(from_journal)?;
            for stream in &open {
                let Ok(session_id) = stream.as_str().parse() else {
                    continue;
                };
                if self.backends.session_store.has_session(session_id).await? {
                    sessions.push(session_id);
                }
            }
            after = open.last().cloned();
            if open.len() < OPEN_AT_ONCE {
                return Ok(sessions);
            }
        }
    }

    pub(crate) async fn import(
        self: &Arc<Self>,
        session_id: SessionId,
        message: Message,
    ) -> Result<()> {
        let slot = self.slot(session_id).await?;
        let input = Box::new(Input::Import { message });
        slot.ask(self, |reply| ThreadCommand::Decide { input, reply })
            .await
    }

    pub(crate) async fn emit(
        self: &Arc<Self>,
        exec_id: ExecId,
        request: EventRequest,
    ) -> Result<Event> {
        let slot = self.slot(request.session_id).await?;
        let data = request.data;
        let input = Box::new(Input::Emit { exec_id, data });
        slot.ask(self, |reply| ThreadCommand::Record { input, reply })
            .await
    }
}

/// Evicts idle sessions periodically, also while the runtime is not in use, until `is_done` returns true.
async fn evict(runtime: Weak<Inner>, span: Duration, is_done: impl Fn(&Inner) -> bool) {
    while let Some(sleep) = runtime.upgrade().map(|inner| inner.clock.sleep(span)) {
        sleep.await;
        let Some(inner) = runtime.upgrade() else {
            return;
        };
        inner.forget_idle();
        if is_done(&inner) {
            return;
        }
    }
}

/// A store that is not a view of the journal is the embedder's own and gets copies.
fn mirror_of(backends: &RuntimeBackends) -> Mirror {
    let (messages, events) = (&backends.message_store, &backends.event_bus);
    Mirror::new(
        (!same(messages, &backends.views.messages)).then(|| Arc::clone(messages)),
        (!same(events, &backends.views.events)).then(|| Arc::clone(events)),
    )
}

/// Returns whether two handles of different types refer to one object.
fn same<A: ?Sized, B: ?Sized>(a: &Arc<A>, b: &Arc<B>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
