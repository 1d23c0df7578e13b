//! Short names for content.

use std::fmt;

use serde::Serialize;

/// The first half of a BLAKE3 hash: enough to name content, printed as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Digest128([u8; 16]);

impl Digest128 {
    /// Returns the digest of bytes.
    #[must_use]
    pub fn hash(bytes: &[u8]) -> Self {
        Self::first_half(&blake3::hash(bytes))
    }

    /// Returns the digest of a value's JSON; a value that cannot be serialized has the digest of no bytes.
    #[must_use]
    pub fn of_json(value: &impl Serialize) -> Self {
        Self::hash(&serde_json::to_vec(value).unwrap_or_default())
    }

    /// Returns the digest of this digest followed by bytes.
    #[must_use]
    pub fn chain(self, bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(bytes);
        Self::first_half(&hasher.finalize())
    }

    pub(crate) const fn bytes(self) -> [u8; 16] {
        self.0
    }

    fn first_half(hash: &blake3::Hash) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        Self(half)
    }
}

impl fmt::Display for Digest128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Digest128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
