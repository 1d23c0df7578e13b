//! The chain of digests over the records of a stream.
//!
//! `d = blake3(bytes)` is the digest of a record's bytes, and `h = blake3(h_before ‖ seq ‖ d)` covers the record and all before it. `seq` is eight
//! bytes, little endian. The first record follows the digest of the stream's own name, so that two streams cannot be exchanged. The first record of a
//! fork follows the last shared record of its parent. If the operator sets a key, `h` is keyed and `d` is not: `d` also identifies blobs, and any
//! reader of the bytes can compute it.

use secrecy::{ExposeSecret, SecretBox};
use windlass_macros::OpaqueDebug;

use crate::journal::StreamKey;

/// An untruncated BLAKE3 hash.
pub type Digest = [u8; 32];

/// Returns the digest of a record's bytes.
pub fn digest(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

/// The key of the chain. A valid chain cannot be computed without it.
#[derive(OpaqueDebug)]
pub struct ChainKey(SecretBox<[u8; 32]>);

impl ChainKey {
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(SecretBox::new(Box::new(key)))
    }
}

impl Clone for ChainKey {
    fn clone(&self) -> Self {
        Self::new(*self.0.expose_secret())
    }
}

/// Computes the links of chains.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    key: Option<ChainKey>,
}

impl Chain {
    pub fn new(key: Option<ChainKey>) -> Self {
        Self { key }
    }

    fn hasher(&self) -> blake3::Hasher {
        match &self.key {
            Some(key) => blake3::Hasher::new_keyed(key.0.expose_secret()),
            None => blake3::Hasher::new(),
        }
    }

    /// Returns the link before the first record of a stream.
    pub fn start(&self, stream: &StreamKey) -> Digest {
        let mut hasher = self.hasher();
        hasher.update(b"windlass stream\0");
        hasher.update(stream.as_str().as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Returns the link before the first own record of a fork. It covers the last shared record and the fork's own name, so that two forks at the
    /// same record cannot be exchanged either.
    pub fn fork(&self, link: &Digest, stream: &StreamKey) -> Digest {
        let mut hasher = self.hasher();
        hasher.update(b"windlass fork\0");
        hasher.update(link);
        hasher.update(stream.as_str().as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Returns the link of a record.
    pub fn link(&self, before: &Digest, seq: u64, digest: &Digest) -> Digest {
        // One buffer instead of a hasher, which would be many times as large as its input.
        let mut message = [0; 72];
        message[..32].copy_from_slice(before);
        message[32..40].copy_from_slice(&seq.to_le_bytes());
        message[40..].copy_from_slice(digest);
        let hash = match &self.key {
            Some(key) => blake3::keyed_hash(key.0.expose_secret(), &message),
            None => blake3::hash(&message),
        };
        *hash.as_bytes()
    }

    /// Returns the value by which a database recognizes its key; `None` without a key.
    pub fn key_check(&self) -> Option<Digest> {
        self.key.as_ref()?;
        let mut hasher = self.hasher();
        hasher.update(b"windlass chain key");
        Some(*hasher.finalize().as_bytes())
    }
}

/// Prints a digest as hex.
pub fn hex(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}
