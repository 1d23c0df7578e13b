//! The secrets that this process knows, and their masks: no record of a thread contains one.
//!
//! Known secrets are the API keys of the models in use, and the secrets of the sessions in memory: those that a session has when its thread is
//! loaded, and those that are set or read through the runtime later. A secret that is replaced, deleted or evicted with its session is no longer
//! known, and its bytes are wiped.

mod error;
mod escapes;
mod event_mask;
mod forms;
mod mask;
mod output_secrets;
mod tracked_storage;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use windlass_core::error::AgentLoopError;
use windlass_core::llm_driver_registry::ProviderType;
use windlass_core::named_secrets::{NamedSecret, NamedSecrets};
use windlass_core::traits::SecretPlaces;
use windlass_core::typed_id::SessionId;

pub(crate) use event_mask::{EventMask, mask_parts};
pub(crate) use mask::{Mask, Secret, mask_of};
use output_secrets::OutputSecrets;
use windlass_macros::OpaqueDebug;

pub(crate) use tracked_storage::SecretTrackingStorage;
use windlass_core::lock::lock;

/// Minimum length of a stored secret to be masked; a shorter one would match in ordinary words.
pub(crate) const MIN_SECRET_BYTES: usize = 4;
/// Minimum length of a key to be masked: servers without keys get a word like `none`, and no provider's key is shorter.
pub(crate) const MIN_KEY_BYTES: usize = 8;

#[derive(Default)]
struct SecretTable {
    /// Keys of models, and secrets of the operator; they are masked in all sessions.
    keys: Vec<Arc<Secret>>,
    /// Secrets of the sessions in memory.
    sessions: HashMap<SessionId, Vec<Arc<Secret>>>,
    /// Keys that several sessions use, each stored once.
    shared: Vec<Weak<Secret>>,
}

impl SecretTable {
    /// Replaces the session's secret of the same name. A session that is not in memory reads its own secrets when it is loaded.
    fn put(&mut self, session_id: SessionId, name: &str, secret: Option<Arc<Secret>>) {
        if let Some(secrets) = self.sessions.get_mut(&session_id) {
            secrets.retain(|secret| !secret.has_name(name));
            secrets.extend(secret);
        }
    }
}

/// The secrets that this process knows.
#[derive(OpaqueDebug, Default)]
pub(crate) struct KnownSecrets {
    /// Whether there ever was a secret. A runtime without secrets checks only this flag.
    any: AtomicBool,
    table: Mutex<SecretTable>,
    /// Secrets of the operator, which are masked in tool output too.
    operator: Vec<Arc<Secret>>,
}

impl KnownSecrets {
    /// Registers the operator's secrets.
    pub(crate) fn new(named: &NamedSecrets) -> Self {
        let secret = |named: &NamedSecret| Arc::new(Secret::new(&named.name, &named.value));
        let operator: Vec<_> = named.iter().map(secret).collect();
        let table = SecretTable {
            keys: operator.clone(),
            ..SecretTable::default()
        };
        Self {
            any: AtomicBool::new(!operator.is_empty()),
            table: Mutex::new(table),
            operator,
        }
    }

    /// Returns the mask of the operator's secrets, which applies to tool output too.
    pub(crate) fn operator_mask(&self) -> Option<Mask> {
        Mask::new(self.operator.clone())
    }

    /// Registers the key of a model.
    pub(crate) fn note_key(&self, provider: ProviderType, key: &str) {
        if key.len() < MIN_KEY_BYTES {
            return;
        }
        let mut table = lock(&self.table);
        if !table.keys.iter().any(|secret| secret.is(key)) {
            let name = format!("{provider}_api_key");
            table.keys.push(Arc::new(Secret::new(&name, key)));
            self.any.store(true, Ordering::Release);
        }
    }

    /// Registers a session that is loaded into memory.
    pub(crate) fn open_session(&self, session_id: SessionId) {
        lock(&self.table).sessions.entry(session_id).or_default();
    }

    /// Registers a secret of a session, replacing the one of the same name.
    pub(crate) fn note(&self, session_id: SessionId, name: &str, value: &str) {
        let mut table = lock(&self.table);
        let own = table.sessions.get(&session_id);
        let is_equal = |secret: &Arc<Secret>| secret.has_name(name) && secret.is(value);
        if own.is_none_or(|own| own.iter().any(is_equal)) {
            return;
        }
        let is_long = value.len() >= MIN_SECRET_BYTES;
        let secret = is_long.then(|| Arc::new(Secret::new(name, value)));
        if secret.is_some() {
            self.any.store(true, Ordering::Release);
        }
        table.put(session_id, name, secret);
    }

    /// Registers a key that several sessions share.
    pub(crate) fn note_shared(
        &self,
        session_id: SessionId,
        name: &str,
        value: &str,
    ) -> Arc<Secret> {
        let mut table = lock(&self.table);
        table.shared.retain(|secret| secret.strong_count() > 0);
        let mut shared = table.shared.iter().filter_map(Weak::upgrade);
        let stored = shared.find(|secret| secret.has_name(name) && secret.is(value));
        drop(shared);
        let secret = stored.unwrap_or_else(|| {
            let secret = Arc::new(Secret::new(name, value));
            table.shared.push(Arc::downgrade(&secret));
            secret
        });
        table.put(session_id, name, Some(Arc::clone(&secret)));
        self.any.store(true, Ordering::Release);
        secret
    }

    pub(crate) fn forget(&self, session_id: SessionId, name: &str) {
        lock(&self.table).put(session_id, name, None);
    }

    /// Removes the secrets of a session that is evicted from memory.
    pub(crate) fn forget_session(&self, session_id: SessionId) {
        lock(&self.table).sessions.remove(&session_id);
    }

    /// Returns the mask of all secrets that a session must not show; `None` if there are none.
    pub(crate) fn mask(&self, session_id: SessionId) -> Option<Mask> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let table = lock(&self.table);
        let own = table.sessions.get(&session_id);
        let secrets = own.into_iter().flatten().chain(&table.keys).cloned();
        Mask::new(secrets.collect())
    }

    /// Returns the positions at which a tool may split its output for a session.
    pub(crate) fn output_secrets(&self, session_id: SessionId) -> Option<Arc<dyn SecretPlaces>> {
        let (all, operator) = (self.mask(session_id)?, self.operator_mask());
        Some(Arc::new(OutputSecrets { all, operator }))
    }

    /// Masks an error before it leaves the runtime.
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
            .settings(RuntimeSettings::default().idle_sessions(1));
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
        let known = lock(&runtime.inner.secrets.table).sessions.len();
        assert_eq!(known, 1);
    }

    #[test]
    fn shared_key_is_stored_once() {
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
    fn r71_keys_are_masked_in_all_sessions_and_secrets_in_their_own() {
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
    fn r72_replaced_and_deleted_secrets_are_forgotten() {
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
