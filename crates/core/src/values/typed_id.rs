//! Identifiers that cannot be mixed up: one uuid, printed with the prefix of its kind.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::digest::Digest128;

const HEX_DIGITS: usize = 32;
/// Buffer size for the printed form of any kind, in bytes.
const PRINTED: usize = 64;

/// Names a kind of identifier.
pub trait IdMarker {
    /// The text before the underscore.
    const PREFIX: &'static str;
}

/// A uuid of one kind, printed as `prefix_` and 32 lower-case hex digits.
pub struct TypedId<T: IdMarker> {
    uuid: Uuid,
    kind: PhantomData<fn() -> T>,
}

/// Why a text is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdParseError {
    /// The text has the prefix of another kind, or none.
    #[error("an id starting with `{expected}_` was expected, got `{got}`")]
    InvalidPrefix {
        /// The prefix of the wanted kind.
        expected: &'static str,
        /// The value found.
        got: String,
    },
    /// The digits are not lower-case hex.
    #[error("the digits of an id are lower-case hex, got `{0}`")]
    InvalidHex(String),
    /// There are too few or too many digits.
    #[error("an id has {expected} hex digits, got {got}")]
    InvalidLength {
        /// The expected number of digits.
        expected: usize,
        /// The actual number of digits.
        got: usize,
    },
}

impl<T: IdMarker> TypedId<T> {
    /// Creates an identifier that sorts after the earlier ones (UUIDv7).
    #[must_use]
    pub fn new() -> Self {
        Self::from_uuid(Uuid::now_v7())
    }

    /// Creates the identifier whose UUID is this number.
    #[must_use]
    pub const fn from_seed(value: u128) -> Self {
        Self::from_uuid(Uuid::from_u128(value))
    }

    /// Derives the identifier of a name; the same name always gives the same identifier.
    ///
    /// ```
    /// use windlass_core::SessionId;
    /// assert_eq!(SessionId::from_name("boat"), SessionId::from_name("boat"));
    /// assert_ne!(SessionId::from_name("boat"), SessionId::from_name("Boat"));
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        // UUID version 8 is free for custom content, such as a digest. The prefix separates names of different kinds.
        let digest = Digest128::hash(T::PREFIX.as_bytes()).chain(name.as_bytes());
        Self::from_uuid(uuid::Builder::from_custom_bytes(digest.bytes()).into_uuid())
    }

    /// Wraps a uuid.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self {
            uuid,
            kind: PhantomData,
        }
    }

    /// Returns the uuid inside.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Returns the prefix of this kind.
    #[must_use]
    pub fn prefix() -> &'static str {
        T::PREFIX
    }

    /// Prints without a formatter, because an event contains several IDs. `None` if the buffer is too small.
    fn print<'a>(&self, buffer: &'a mut [u8; PRINTED]) -> Option<&'a str> {
        let start = T::PREFIX.len() + 1;
        let digits = buffer.get_mut(start..start + HEX_DIGITS)?;
        self.uuid.as_simple().encode_lower(digits);
        buffer[..start - 1].copy_from_slice(T::PREFIX.as_bytes());
        buffer[start - 1] = b'_';
        std::str::from_utf8(&buffer[..start + HEX_DIGITS]).ok()
    }

    /// Reads the printed form; checks prefix, length and digits, in this order.
    pub fn parse(s: &str) -> Result<Self, IdParseError> {
        let invalid_prefix = || IdParseError::InvalidPrefix {
            expected: T::PREFIX,
            got: s.to_owned(),
        };
        let digits = s
            .strip_prefix(T::PREFIX)
            .and_then(|rest| rest.strip_prefix('_'))
            .ok_or_else(invalid_prefix)?;
        if digits.len() != HEX_DIGITS {
            return Err(IdParseError::InvalidLength {
                expected: HEX_DIGITS,
                got: digits.chars().count(),
            });
        }
        let is_lower_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if !digits.bytes().all(is_lower_hex) {
            return Err(IdParseError::InvalidHex(digits.to_owned()));
        }
        let uuid =
            Uuid::try_parse(digits).map_err(|_| IdParseError::InvalidHex(digits.to_owned()))?;
        Ok(Self::from_uuid(uuid))
    }
}

impl<T: IdMarker> Clone for TypedId<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: IdMarker> Copy for TypedId<T> {}
impl<T: IdMarker> PartialEq for TypedId<T> {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid
    }
}
impl<T: IdMarker> Eq for TypedId<T> {}
impl<T: IdMarker> PartialOrd for TypedId<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T: IdMarker> Ord for TypedId<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.uuid.cmp(&other.uuid)
    }
}
impl<T: IdMarker> Hash for TypedId<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uuid.hash(state);
    }
}
impl<T: IdMarker> Default for TypedId<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T: IdMarker> fmt::Display for TypedId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", T::PREFIX, self.uuid.as_simple())
    }
}
impl<T: IdMarker> fmt::Debug for TypedId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl<T: IdMarker> FromStr for TypedId<T> {
    type Err = IdParseError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::parse(s)
    }
}
impl<T: IdMarker> From<Uuid> for TypedId<T> {
    fn from(uuid: Uuid) -> Self {
        Self::from_uuid(uuid)
    }
}
impl<T: IdMarker> From<TypedId<T>> for Uuid {
    fn from(id: TypedId<T>) -> Self {
        id.uuid
    }
}
impl<T: IdMarker> AsRef<Uuid> for TypedId<T> {
    fn as_ref(&self) -> &Uuid {
        &self.uuid
    }
}
impl<T: IdMarker> Borrow<Uuid> for TypedId<T> {
    fn borrow(&self) -> &Uuid {
        &self.uuid
    }
}
impl<T: IdMarker> PartialEq<Uuid> for TypedId<T> {
    fn eq(&self, other: &Uuid) -> bool {
        self.uuid == *other
    }
}
impl<T: IdMarker> PartialEq<TypedId<T>> for Uuid {
    fn eq(&self, other: &TypedId<T>) -> bool {
        *self == other.uuid
    }
}
impl<T: IdMarker> Serialize for TypedId<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.print(&mut [0; PRINTED]) {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_str(self),
        }
    }
}
impl<'de, T: IdMarker> Deserialize<'de> for TypedId<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(IdVisitor(PhantomData))
    }
}

/// Parses an identifier from borrowed text, without a copy: an event holds several identifiers.
struct IdVisitor<T>(PhantomData<fn() -> T>);

impl<T: IdMarker> serde::de::Visitor<'_> for IdVisitor<T> {
    type Value = TypedId<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        TypedId::parse(text).map_err(E::custom)
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! ids {
    ($($alias:ident, $marker:ident, $prefix:literal, $what:literal;)*) => {$(
        #[doc = concat!("Marks the identifier of ", $what, ".")]
        #[derive(Debug, Clone, Copy)]
        pub struct $marker;
        impl $crate::typed_id::IdMarker for $marker {
            const PREFIX: &'static str = $prefix;
        }
        #[doc = concat!("Identifies ", $what, ".")]
        pub type $alias = $crate::typed_id::TypedId<$marker>;
    )*};
}

ids! {
    SessionId, SessionIdMarker, "session", "a session";
    HarnessId, HarnessIdMarker, "harness", "a harness";
    AgentId, AgentIdMarker, "agent", "an agent";
    MessageId, MessageIdMarker, "message", "a message";
    EventId, EventIdMarker, "event", "an event";
    TurnId, TurnIdMarker, "turn", "a turn";
    ExecId, ExecIdMarker, "exec", "a step";
    ItemId, ItemIdMarker, "item", "an item: the uuid of its message or step";
    ModelId, ModelIdMarker, "model", "a model";
    ProviderId, ProviderIdMarker, "provider", "a model provider";
    ImageId, ImageIdMarker, "img", "an image";
    McpServerId, McpServerIdMarker, "mcp", "an MCP server";
    SkillId, SkillIdMarker, "skill", "a skill";
    CapabilityRecordId, CapabilityRecordIdMarker, "cap", "a stored capability";
    ScheduleId, ScheduleIdMarker, "sched", "a schedule";
    MemoryId, MemoryIdMarker, "mem", "a memory";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_form_is_parsed() {
        let id = SessionId::new();
        assert_eq!(id.to_string().parse::<SessionId>(), Ok(id));
        assert_eq!(
            SessionId::from_seed(0x21).to_string(),
            "session_00000000000000000000000000000021"
        );
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<SessionId>(&json).unwrap(), id);
    }

    #[test]
    fn name_always_gives_the_same_id() {
        // Fixed: stored sessions are found by it.
        let id = SessionId::from_name("boat");
        assert_eq!(id.to_string(), "session_c2d9851936e983449aaad7ac7c1c2c6b");
        assert_eq!(id.uuid().get_version_num(), 8);
        assert_ne!(id.uuid(), AgentId::from_name("boat").uuid());
        assert_ne!(id, SessionId::from_name(""));
    }

    #[test]
    fn bad_ids_are_refused_in_the_order_prefix_length_hex() {
        let parse = SessionId::parse;
        assert!(matches!(
            parse("agent_00"),
            Err(IdParseError::InvalidPrefix {
                expected: "session",
                ..
            })
        ));
        assert_eq!(
            parse("session_0G"),
            Err(IdParseError::InvalidLength {
                expected: 32,
                got: 2
            })
        );
        let upper = format!("session_{}", "A".repeat(32));
        assert!(matches!(parse(&upper), Err(IdParseError::InvalidHex(_))));
        let wide = format!("session_{}", "é".repeat(16));
        assert!(matches!(parse(&wide), Err(IdParseError::InvalidHex(_))));
    }
}
