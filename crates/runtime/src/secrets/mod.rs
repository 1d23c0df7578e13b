//! Secrets that this process knows, and their masks: what a thread records never shows one.
//!
//! Known are the API keys of the models in use, and the secrets of the sessions that are in memory: those a session has when
//! its thread is opened, and those that are set or read through the runtime later. A secret that is replaced, deleted or
//! forgotten is known no more, and its bytes are wiped; so are those of a session that leaves memory.

mod error;
mod escapes;
mod event_mask;
mod forms;
mod mask;
mod places;
mod watched_storage;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use windlass_core::error::AgentLoopError;
use windlass_core::llm_driver_registry::ProviderType;
use windlass_core::named_secrets::NamedSecrets;
use windlass_core::traits::SecretPlaces;
use windlass_core::typed_id::SessionId;

pub(crate) use event_mask::{EventMask, mask_parts};
pub(crate) use mask::{Mask, Secret, mask_of};
use places::Places;
pub(crate) use watched_storage::WatchedStorage;

/// A stored secret that is shorter is not looked for: it is no secret, and would be found in every other word.
pub(crate) const MIN_SECRET_BYTES: usize = 4;
/// Nor is a key that is shorter: servers that need none get a word like `none`, and no provider's key is this short.
pub(crate) const MIN_KEY_BYTES: usize = 8;

#[derive(Default)]
struct SecretTable {
    /// Keys of models, and secrets of the operator: no session shows them.
    keys: Vec<Arc<Secret>>,
    /// The sessions that are in memory.
    sessions: HashMap<SessionId, Vec<Arc<Secret>>>,
    /// Keys that several sessions use, each stored once.
    shared: Vec<Weak<Secret>>,
}

impl SecretTable {
    /// Puts a secret in the place of the session's one of the same name. A session that is not in memory reads its own when
    /// it is opened.
    fn put(&mut self, session_id: SessionId, name: &str, secret: Option<Arc<Secret>>) {
        if let Some(secrets) = self.sessions.get_mut(&session_id) {
            secrets.retain(|secret| !secret.has_name(name));
            secrets.extend(secret);
        }
    }
}

/// The secrets that this process knows.
#[derive(Default)]
pub(crate) struct KnownSecrets {
    /// Whether there ever was one. It is all that a runtime without secrets looks at.
    any: AtomicBool,
    known: Mutex<SecretTable>,
    /// Secrets of the operator, which tools do not show either.
    named: Vec<Arc<Secret>>,
}

impl KnownSecrets {
    /// Knows the secrets of the operator from the start.
    pub(crate) fn new(named: &NamedSecrets) -> Self {
        let named = named.iter();
        let named = named.map(|secret| Arc::new(Secret::new(&secret.name, &secret.value)));
        let named: Vec<_> = named.collect();
        let known = SecretTable {
            keys: named.clone(),
            ..SecretTable::default()
        };
        Self {
            any: AtomicBool::new(!named.is_empty()),
            known: Mutex::new(known),
            named,
        }
    }

    /// Returns the mask of what even a tool must not show of the operator's.
    pub(crate) fn named_mask(&self) -> Option<Mask> {
        Mask::of(self.named.clone())
    }

    fn known(&self) -> MutexGuard<'_, SecretTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets to know the key of a model.
    pub(crate) fn note_key(&self, provider: ProviderType, key: &str) {
        if key.len() < MIN_KEY_BYTES {
            return;
        }
        let mut known = self.known();
        if !known.keys.iter().any(|secret| secret.is(key)) {
            let name = format!("{provider}_api_key");
            known.keys.push(Arc::new(Secret::new(&name, key)));
            self.any.store(true, Ordering::Release);
        }
    }

    /// Begins to know the secrets of a session that comes into memory.
    pub(crate) fn open_session(&self, session_id: SessionId) {
        self.known().sessions.entry(session_id).or_default();
    }

    /// Gets to know a secret of a session, in place of the one of the same name.
    pub(crate) fn note(&self, session_id: SessionId, name: &str, value: &str) {
        let mut known = self.known();
        let own = known.sessions.get(&session_id);
        let is_equal = |secret: &Arc<Secret>| secret.has_name(name) && secret.is(value);
        if own.is_none_or(|own| own.iter().any(is_equal)) {
            return;
        }
        let is_long = value.len() >= MIN_SECRET_BYTES;
        let secret = is_long.then(|| Arc::new(Secret::new(name, value)));
        if secret.is_some() {
            self.any.store(true, Ordering::Release);
        }
        known.put(session_id, name, secret);
    }

    /// Gets to know a key that a session shares with others.
    pub(crate) fn note_shared(
        &self,
        session_id: SessionId,
        name: &str,
        value: &str,
    ) -> Arc<Secret> {
        let mut known = self.known();
        known.shared.retain(|secret| secret.strong_count() > 0);
        let mut shared = known.shared.iter().filter_map(Weak::upgrade);
        let stored = shared.find(|secret| secret.has_name(name) && secret.is(value));
        drop(shared);
        let secret = stored.unwrap_or_else(|| {
            let secret = Arc::new(Secret::new(name, value));
            known.shared.push(Arc::downgrade(&secret));
            secret
        });
        known.put(session_id, name, Some(Arc::clone(&secret)));
        self.any.store(true, Ordering::Release);
        secret
    }

    pub(crate) fn forget(&self, session_id: SessionId, name: &str) {
        self.known().put(session_id, name, None);
    }

    /// Forgets the secrets of a session that leaves memory.
    pub(crate) fn forget_session(&self, session_id: SessionId) {
        self.known().sessions.remove(&session_id);
    }

    /// Returns the mask of everything that a session must not show; `None` when there is nothing.
    pub(crate) fn mask(&self, session_id: SessionId) -> Option<Mask> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known();
        let own = known.sessions.get(&session_id);
        let secrets = own.into_iter().flatten().chain(&known.keys).cloned();
        Mask::of(secrets.collect())
    }

    /// Returns where a tool may cut what it shows to a session.
    pub(crate) fn places(&self, session_id: SessionId) -> Option<Arc<dyn SecretPlaces>> {
        let known = self.mask(session_id)?;
        let named = self.named_mask();
        Some(Arc::new(Places { known, named }))
    }

    /// Masks an error before anybody outside reads it.
    pub(crate) fn mask_error(
        &self,
        session_id: SessionId,
        error: AgentLoopError,
    ) -> AgentLoopError {
        match self.mask(session_id) {
            Some(mask) => mask.error(error),
            None => error,
        }
    }
}

/// Says how much is known, and nothing of it.
impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.known();
        f.debug_struct("KnownSecrets")
            .field("keys", &known.keys.len())
            .field("sessions", &known.sessions.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(known: &KnownSecrets, session_id: SessionId, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(mask) = known.mask(session_id) {
            mask.text(&mut text);
        }
        text
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn secrets_are_forgotten_when_their_session_leaves_memory() {
        use windlass_core::llmsim_driver::LlmSimConfig;

        use crate::{
            AgentBuilder, HarnessBuilder, InProcessRuntimeBuilder, RuntimeBackends,
            RuntimeSettings, SessionBuilder, SqliteOptions, SqliteStore,
        };

        let directory = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(directory.path().join("data"));
        let options = options.with_secrets_key(windlass_store::sqlite::SecretsKey::new([1; 32]));
        let store = SqliteStore::open(options).await.unwrap();
        let harness = HarnessBuilder::new("h", "prompt").build();
        let agent = AgentBuilder::new("a", "agent").build();
        let session = || {
            SessionBuilder::new(harness.id)
                .agent(agent.public_id)
                .build()
        };
        let sessions = [session(), session(), session()];
        let builder = InProcessRuntimeBuilder::new()
            .backends(RuntimeBackends::on_sqlite(&store))
            .llm_sim(LlmSimConfig::fixed("said"))
            .harness(harness)
            .agent(agent.clone())
            .settings(RuntimeSettings {
                idle_sessions: 1,
                ..RuntimeSettings::default()
            });
        let add =
            |builder: InProcessRuntimeBuilder, session: &_| builder.session(Clone::clone(session));
        let runtime = sessions.iter().fold(builder, add).build().await.unwrap();
        let storage = &runtime.inner.backends.storage_store;
        for session in &sessions {
            let stored = storage.set_secret(session.id, "db", "hunter2");
            stored.await.unwrap();
            runtime.run_text_turn(session.id, "hello").await.unwrap();
        }
        while runtime.loaded_sessions() > 1 {
            tokio::task::yield_now().await;
        }
        let known = runtime.inner.secrets.known().sessions.len();
        assert_eq!(known, 1);
    }

    #[test]
    fn a_key_that_sessions_share_is_stored_once() {
        let (known, one, two) = (KnownSecrets::default(), SessionId::new(), SessionId::new());
        let [first, second] = [one, two].map(|session| {
            known.open_session(session);
            known.note_shared(session, "mcp", "key-0123456789")
        });
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(masked(&known, two, "key-0123456789"), "[secret:mcp]");
        known.forget_session(two);
        assert_eq!(masked(&known, two, "key-0123456789"), "key-0123456789");
        assert_eq!(masked(&known, one, "key-0123456789"), "[secret:mcp]");
    }

    #[test]
    fn a_runtime_without_secrets_has_no_mask() {
        let (known, session) = (KnownSecrets::default(), SessionId::new());
        known.open_session(session);
        assert!(known.mask(session).is_none());
        known.note_key(ProviderType::OpenAI, "none");
        known.note(session, "pin", "123");
        assert!(known.mask(session).is_none());
    }

    #[test]
    fn r71_keys_are_masked_everywhere_and_secrets_in_their_session() {
        let (known, mine, other) = (KnownSecrets::default(), SessionId::new(), SessionId::new());
        known.note_key(ProviderType::OpenAI, "sk-0123456789");
        known.open_session(mine);
        known.note(mine, "db", "hunter2");
        let said = "sk-0123456789 and hunter2";
        assert_eq!(
            masked(&known, mine, said),
            "[secret:openai_api_key] and [secret:db]"
        );
        assert_eq!(
            masked(&known, other, said),
            "[secret:openai_api_key] and hunter2"
        );
    }

    #[test]
    fn r72_what_is_replaced_or_deleted_is_known_no_more() {
        let (known, session) = (KnownSecrets::default(), SessionId::new());
        known.open_session(session);
        known.note(session, "db", "hunter2");
        known.note(session, "db", "correct horse");
        assert_eq!(masked(&known, session, "hunter2"), "hunter2");
        assert_eq!(masked(&known, session, "correct horse"), "[secret:db]");
        known.forget(session, "db");
        assert_eq!(masked(&known, session, "correct horse"), "correct horse");
        known.note(session, "db", "hunter2");
        known.forget_session(session);
        assert!(known.mask(session).is_none());
        assert!(!format!("{known:?}").contains("hunter2"));
    }
}
