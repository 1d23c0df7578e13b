//! Wire IDs: one UUID, printed with the prefix of its kind.

use std::fmt::Display;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use uuid::Uuid;
use windlass_core::typed_id::{ExecId, ItemId, SessionId, TurnId};

pub(crate) fn thread(id: SessionId) -> String {
    format!("thr_{}", id.uuid().as_simple())
}

/// Removes the prefix of thread IDs from a search text, because recorded IDs have another one. Case is ignored.
pub(crate) fn session_text(search: &str) -> String {
    let lower = search.to_lowercase();
    lower.strip_prefix("thr_").unwrap_or(&lower).to_owned()
}

pub(crate) fn call(id: ExecId) -> String {
    format!("call_{}", id.uuid().as_simple())
}

pub(crate) fn approval(id: ExecId) -> String {
    format!("appr_{}", id.uuid().as_simple())
}

/// Parses an ID with its prefix and exactly 32 lower-case hex digits.
fn parse(text: &str, prefix: &str) -> Option<Uuid> {
    let digits = text.strip_prefix(prefix)?;
    let id = Uuid::try_parse(digits).ok()?;
    (id.as_simple().to_string() == digits).then_some(id)
}

/// Parses an ID only in its canonical spelling.
pub(crate) fn exact<T: FromStr + Display>(text: &str) -> Option<T> {
    let id: T = text.parse().ok()?;
    (id.to_string() == text).then_some(id)
}

pub(crate) fn parse_thread(text: &str) -> Option<SessionId> {
    parse(text, "thr_").map(SessionId::from_uuid)
}

/// Returns the wire ID of a saved session.
pub(crate) fn session(id: SessionId) -> String {
    format!("sess_{}", id.uuid().as_simple())
}

/// Returns whether a text is a valid saved-session ID.
pub(crate) fn is_session(text: &str) -> bool {
    parse(text, "sess_").is_some()
}

pub(crate) fn parse_turn(text: &str) -> Option<TurnId> {
    parse(text, "turn_").map(TurnId::from_uuid)
}

pub(crate) fn parse_call(text: &str) -> Option<ExecId> {
    parse(text, "call_").map(ExecId::from_uuid)
}

pub(crate) fn parse_approval(text: &str) -> Option<ExecId> {
    parse(text, "appr_").map(ExecId::from_uuid)
}

pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Derives the id of the thread that a request with an idempotency key creates.
pub(crate) fn derived_thread(request: &str) -> SessionId {
    SessionId::from_uuid(derived(request))
}

/// Derives the id of the turn that a request with an idempotency key starts.
pub(crate) fn derived_turn(request: &str) -> TurnId {
    TurnId::from_uuid(derived(request))
}

/// Derives a UUID (version 8) from the digest of a request: owner, operation, key and body.
pub(crate) fn derived(request: &str) -> Uuid {
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&blake3::hash(request.as_bytes()).as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Maps IDs that a fork shares with its parent to IDs of the fork. The mapping is deterministic and its own inverse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForkIds(pub(crate) SessionId);

impl ForkIds {
    fn uuid(self, id: Uuid) -> Uuid {
        let hash = blake3::hash(self.0.uuid().as_bytes());
        let mut bytes = *id.as_bytes();
        // The timestamp is unchanged, so that IDs still sort by age; so are version and variant.
        bytes[7..]
            .iter_mut()
            .zip(hash.as_bytes())
            .for_each(|(byte, mask)| *byte ^= mask);
        bytes[8] = (bytes[8] & 0x3f) | (id.as_bytes()[8] & 0xc0);
        Uuid::from_bytes(bytes)
    }

    pub(crate) fn turn(self, id: TurnId) -> TurnId {
        TurnId::from_uuid(self.uuid(id.uuid()))
    }

    pub(crate) fn item(self, id: ItemId) -> ItemId {
        ItemId::from_uuid(self.uuid(id.uuid()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_ids_have_128_bits_and_do_not_repeat() {
        let ids: std::collections::HashSet<Uuid> =
            (0..1_000_000).map(|_| SessionId::new().uuid()).collect();
        assert_eq!(ids.len(), 1_000_000);
        let id = SessionId::new();
        assert_eq!(thread(id).len(), "thr_".len() + 32);
    }

    #[test]
    fn malformed_ids_are_refused() {
        let id = SessionId::from_seed(7);
        assert_eq!(parse_thread(&thread(id)), Some(id));
        for text in [
            "thr_",
            "thr_7",
            "thr_0000000000000000000000000000000G",
            "turn_x",
            "",
        ] {
            assert_eq!(parse_thread(text), None, "{text}");
        }
        assert_eq!(parse_thread(&thread(id).to_uppercase()), None);
    }

    #[test]
    fn fork_ids_are_stable_and_differ_between_forks() {
        let (a, b) = (
            ForkIds(SessionId::from_seed(1)),
            ForkIds(SessionId::from_seed(2)),
        );
        let id = TurnId::new();
        assert_eq!(a.turn(id), a.turn(id));
        assert_ne!(a.turn(id), b.turn(id));
        assert_ne!(a.turn(id), id);
        assert_eq!(a.turn(a.turn(id)), id);
        assert_eq!(a.turn(id).uuid().get_version(), id.uuid().get_version());
        assert_eq!(a.turn(id).uuid().get_variant(), id.uuid().get_variant());
    }
}
