//! Sealed secrets.
//!
//! XChaCha20-Poly1305 with a random nonce for each, and session and name as associated data: a row that is copied to another session or name does not
//! open. The caller supplies the key, which is never stored. A short key check value is stored, so that a wrong key can be distinguished from a
//! changed row.

use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rusqlite::Connection;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;
use zeroize::Zeroizing;

use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::numbers::first_value;

/// The key that secrets are sealed with.
#[derive(OpaqueDebug)]
pub struct SecretsKey(SecretBox<[u8; 32]>);

impl SecretsKey {
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(SecretBox::new(Box::new(key)))
    }

    fn mark(&self) -> [u8; 16] {
        let hash = blake3::keyed_hash(self.0.expose_secret(), b"windlass secrets key");
        let mut mark = [0; 16];
        mark.copy_from_slice(&hash.as_bytes()[..16]);
        mark
    }
}

impl Clone for SecretsKey {
    fn clone(&self) -> Self {
        Self::new(*self.0.expose_secret())
    }
}

/// A secret as it is stored.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) key_id: Vec<u8>,
    pub(crate) nonce: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

/// Seals and opens, where a key was given.
#[derive(Debug, Clone)]
pub(crate) struct SecretCipher(Option<SecretsKey>);

impl SecretCipher {
    pub(crate) fn new(key: Option<SecretsKey>) -> Self {
        Self(key)
    }

    fn key(&self) -> DbResult<&SecretsKey> {
        self.0.as_ref().ok_or(SqliteError::NoSecretsKey.into())
    }

    /// Returns the name of a secret that was sealed with another key; without a key there is none to compare with.
    pub(crate) fn sealed_with_another_key(&self, reader: &Connection) -> DbResult<Option<String>> {
        let Some(key) = &self.0 else {
            return Ok(None);
        };
        Ok(reader.find_row(
            "SELECT name FROM secrets WHERE key_id <> ?1 LIMIT 1",
            [key.mark()],
            first_value,
        )?)
    }

    pub(crate) fn seal(&self, session: SessionId, name: &str, value: &str) -> DbResult<Sealed> {
        let key = self.key()?;
        let nonce = XNonce::try_generate().map_err(|error| {
            DbError::unavailable(format!("the system gives no random bytes: {error}"))
        })?;
        let payload = Payload {
            msg: value.as_bytes(),
            aad: &associated_data(session, name),
        };
        let bytes = XChaCha20Poly1305::new(key.0.expose_secret().into())
            .encrypt(&nonce, payload)
            .map_err(|_| DbError::unavailable("a secret is too long to be sealed"))?;
        Ok(Sealed {
            key_id: key.mark().to_vec(),
            nonce: nonce.to_vec(),
            bytes,
        })
    }

    pub(crate) fn open(
        &self,
        session: SessionId,
        name: &str,
        sealed: &Sealed,
    ) -> DbResult<SecretString> {
        let key = self.key()?;
        if sealed.key_id != key.mark() {
            return Err(SqliteError::WrongSecretsKey(name.to_owned()).into());
        }
        let damaged = || DbError::from(SqliteError::DamagedSecret(name.to_owned()));
        let nonce: [u8; 24] = sealed.nonce.as_slice().try_into().map_err(|_| damaged())?;
        let payload = Payload {
            msg: &sealed.bytes,
            aad: &associated_data(session, name),
        };
        let bytes = XChaCha20Poly1305::new(key.0.expose_secret().into())
            .decrypt(&nonce.into(), payload)
            .map_err(|_| damaged())?;
        let bytes = Zeroizing::new(bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
        Ok(SecretString::from(text))
    }
}

/// Where a secret belongs.
fn associated_data(session: SessionId, name: &str) -> Vec<u8> {
    let mut associated_data = session.uuid().as_bytes().to_vec();
    associated_data.extend_from_slice(name.as_bytes());
    associated_data
}
