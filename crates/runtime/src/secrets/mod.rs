//! Secrets that this process knows, and their masks: what a thread records never shows one.
//!
//! Known are the API keys of the models in use, and the secrets of a session: those it has when its thread is opened,
//! and those that are set or read through the runtime later. A secret that is replaced, deleted or forgotten is known
//! no more, and its bytes are wiped.

mod error;
mod escapes;
mod forms;
mod mask;
mod places;
mod watched_storage;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::error::AgentLoopError;
use windlass_core::llm_driver_registry::ProviderType;
use windlass_core::named_secrets::NamedSecrets;
use windlass_core::traits::SecretPlaces;
use windlass_core::typed_id::SessionId;

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
    sessions: HashMap<SessionId, Vec<Arc<Secret>>>,
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

    /// Gets to know a secret of a session, in place of the one of the same name.
    pub(crate) fn note(&self, session_id: SessionId, name: &str, value: &str) {
        let mut known = self.known();
        let secrets = known.sessions.entry(session_id).or_default();
        if secrets
            .iter()
            .any(|known| known.has_name(name) && known.is(value))
        {
            return;
        }
        secrets.retain(|secret| !secret.has_name(name));
        if value.len() >= MIN_SECRET_BYTES {
            secrets.push(Arc::new(Secret::new(name, value)));
            self.any.store(true, Ordering::Release);
        }
    }

    pub(crate) fn forget(&self, session_id: SessionId, name: &str) {
        if let Some(secrets) = self.known().sessions.get_mut(&session_id) {
            secrets.retain(|secret| !secret.has_name(name));
        }
    }

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

    #[test]
    fn a_runtime_without_secrets_has_no_mask() {
        let (known, session) = (KnownSecrets::default(), SessionId::new());
        assert!(known.mask(session).is_none());
        known.note_key(ProviderType::OpenAI, "none");
        known.note(session, "pin", "123");
        assert!(known.mask(session).is_none());
    }

    #[test]
    fn r71_keys_are_masked_everywhere_and_secrets_in_their_session() {
        let (known, mine, other) = (KnownSecrets::default(), SessionId::new(), SessionId::new());
        known.note_key(ProviderType::OpenAI, "sk-0123456789");
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
