//! What all clones of a runtime share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventRequest};
use windlass_core::history::History;
use windlass_core::message::Message;
use windlass_core::platform_definition::PlatformDefinition;
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::{ExecId, SessionId};

use crate::backends::RuntimeBackends;
use crate::drivers::Drivers;
use crate::errors::from_journal;
use crate::mirror::Mirror;
use crate::secrets::{KnownSecrets, WatchedStorage};
use crate::settings::RuntimeSettings;
use crate::steps::arguments::Checker;
use crate::thread::{Mail, Slot};
use crate::turn_context::Offers;
use crate::world::World;

/// What all clones of a runtime share.
pub(crate) struct Inner {
    pub(crate) platform: PlatformDefinition,
    pub(crate) backends: RuntimeBackends,
    pub(crate) files: Arc<dyn SessionFileSystem>,
    pub(crate) drivers: Drivers,
    /// What no record may show.
    pub(crate) secrets: Arc<KnownSecrets>,
    pub(crate) arguments: Checker,
    pub(crate) offers: Offers,
    pub(crate) settings: RuntimeSettings,
    pub(crate) world: Arc<dyn World>,
    pub(crate) mirror: Mirror,
    pub(crate) default_session_id: Option<SessionId>,
    pub(crate) tickets: AtomicU64,
    slots: Mutex<HashMap<SessionId, Arc<Slot>>>,
    is_stopping: AtomicBool,
}

impl Inner {
    pub(crate) fn new(
        platform: PlatformDefinition,
        mut backends: RuntimeBackends,
        files: Arc<dyn SessionFileSystem>,
        settings: RuntimeSettings,
        world: Arc<dyn World>,
        default_session_id: Option<SessionId>,
    ) -> Arc<Self> {
        let secrets = Arc::new(KnownSecrets::default());
        backends.storage_store = Arc::new(WatchedStorage {
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
            arguments: Checker::default(),
            offers: Offers::default(),
            settings,
            world,
            default_session_id,
            tickets: AtomicU64::new(0),
            slots: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        });
        inner.backends.views.messages.attached.attach(&inner);
        inner.backends.views.events.attached.attach(&inner);
        inner
    }

    fn known_slot(&self, session_id: SessionId) -> Option<Arc<Slot>> {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&session_id)
            .cloned()
    }

    /// Returns the place of a session's thread; a session that does not exist has none.
    pub(crate) async fn slot(&self, session_id: SessionId) -> Result<Arc<Slot>> {
        if let Some(slot) = self.known_slot(session_id) {
            return Ok(slot);
        }
        if !self.backends.session_store.has_session(session_id).await? {
            return Err(AgentLoopError::SessionNotFound(session_id));
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(
            slots
                .entry(session_id)
                .or_insert_with(|| Arc::new(Slot::new(session_id))),
        ))
    }

    /// Takes nothing more from now on; returns the threads that there are.
    pub(crate) fn stop(&self) -> Vec<Arc<Slot>> {
        self.is_stopping.store(true, Ordering::SeqCst);
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.values().map(Arc::clone).collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn take_slot(&self, session_id: SessionId) -> Option<Arc<Slot>> {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&session_id)
    }

    /// Returns the conversation of a session as it is recorded, shared.
    pub(crate) async fn history(self: &Arc<Self>, session_id: SessionId) -> Result<History> {
        let slot = self.slot(session_id).await?;
        if let Some(history) = slot.published() {
            return Ok(history);
        }
        slot.ask(self, |reply| Mail::Open { reply }).await?;
        Ok(slot.published().unwrap_or_default())
    }

    /// Takes up the turns that an earlier life of the process left behind.
    ///
    /// A stream without a session waits until its session is added.
    pub(crate) async fn resume_unfinished(self: &Arc<Self>) -> Result<()> {
        for stream in self
            .backends
            .journal
            .unfinished()
            .await
            .map_err(from_journal)?
        {
            let Ok(session_id) = stream.as_str().parse() else {
                continue;
            };
            if self.backends.session_store.has_session(session_id).await? {
                self.resume(session_id).await?;
            }
        }
        Ok(())
    }

    /// Wakes the thread of a session, which takes up what it left behind.
    pub(crate) async fn resume(self: &Arc<Self>, session_id: SessionId) -> Result<()> {
        let slot = self.slot(session_id).await?;
        slot.ask(self, |reply| Mail::Open { reply }).await
    }

    pub(crate) async fn import(
        self: &Arc<Self>,
        session_id: SessionId,
        message: Message,
    ) -> Result<()> {
        let slot = self.slot(session_id).await?;
        slot.ask(self, |reply| Mail::Import {
            message: Box::new(message),
            reply,
        })
        .await
    }

    pub(crate) async fn emit(
        self: &Arc<Self>,
        exec_id: ExecId,
        request: EventRequest,
    ) -> Result<Event> {
        let slot = self.slot(request.session_id).await?;
        slot.ask(self, |reply| Mail::Emit {
            exec_id,
            request: Box::new(request),
            reply,
        })
        .await
    }
}

/// Tells whether two handles of different types stand for one object.
/// What is not a view over the journal is the embedder's own.
fn mirror_of(backends: &RuntimeBackends) -> Mirror {
    let (messages, events) = (&backends.message_store, &backends.event_bus);
    Mirror::new(
        (!same(messages, &backends.views.messages)).then(|| Arc::clone(messages)),
        (!same(events, &backends.views.events)).then(|| Arc::clone(events)),
    )
}

fn same<A: ?Sized, B: ?Sized>(a: &Arc<A>, b: &Arc<B>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
