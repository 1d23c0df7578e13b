//! Tokens in a file of the data directory: digests, never secrets.
//!
//! They are not in the database, because only the daemon writes it, and other processes create and revoke tokens while a daemon runs. The file is
//! replaced atomically and read again when it changes, so a revoked token is refused with the next request.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_macros::Defaults;

use super::{TokenLookup, TokenScope, Tokens};
use crate::json_file::{FileState, JsonContents, JsonFile, JsonFileError};

const FILE: &str = "tokens.json";

/// The stored record of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// ID of the token; not a secret.
    pub id: String,
    /// Name for display; not unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Scope of its rights.
    pub scope: TokenScope,
    /// When the token was created.
    pub created_at: DateTime<Utc>,
    /// The digest of its secret.
    digest: String,
}

#[derive(Debug, Serialize, Deserialize, Defaults)]
struct StoredTokens {
    #[default(Self::VERSION)]
    version: u32,
    tokens: Vec<TokenRecord>,
}

impl JsonContents for StoredTokens {
    const VERSION: u32 = 1;
    const WHAT: &'static str = "tokens";

    fn version(&self) -> u32 {
        self.version
    }
}

/// The tokens of a data directory.
#[derive(Debug)]
pub struct TokenFile {
    file: JsonFile<StoredTokens>,
}

impl TokenFile {
    /// Uses the token file of a directory, which must exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            file: JsonFile::new(directory.into().join(FILE)),
        }
    }

    /// Creates a token; returns its record and its secret, which is not stored.
    pub fn create(
        &self,
        scope: TokenScope,
        name: Option<String>,
    ) -> Result<(TokenRecord, String), JsonFileError> {
        let random = || Uuid::new_v4().simple().to_string();
        let secret = format!("wl_{}{}", random(), random());
        let record = TokenRecord {
            id: format!("tok_{}", &random()[..12]),
            name,
            scope,
            created_at: Utc::now(),
            digest: blake3::hash(secret.as_bytes()).to_hex().to_string(),
        };
        self.file
            .update(|contents| contents.tokens.push(record.clone()))?;
        Ok((record, secret))
    }

    /// Lists the tokens, oldest first.
    pub fn list(&self) -> Result<Vec<TokenRecord>, JsonFileError> {
        let contents = self.file.try_read()?;
        Ok(contents.unwrap_or_default().tokens)
    }

    /// Revokes a token; returns whether it existed.
    pub fn revoke(&self, id: &str) -> Result<bool, JsonFileError> {
        self.file.update(|StoredTokens { tokens, .. }| {
            let before = tokens.len();
            tokens.retain(|token| token.id != id);
            tokens.len() < before
        })
    }

    fn look_up(&self, is_match: impl Fn(&TokenRecord) -> bool) -> TokenLookup {
        match &*self.file.current() {
            FileState::Unknown(_) => TokenLookup::Unknown,
            FileState::Absent => TokenLookup::Absent,
            FileState::Present(contents) => {
                // All tokens are compared, so that the time does not depend on the match.
                let matching = contents.tokens.iter().filter(|token| is_match(token));
                let token = matching.last().cloned();
                token.map_or(TokenLookup::Absent, TokenLookup::Present)
            }
        }
    }
}

impl Tokens for TokenFile {
    fn by_id(&self, id: &str) -> TokenLookup {
        self.look_up(|token| token.id == id)
    }

    fn by_agent(&self, agent_id: &str) -> TokenLookup {
        self.look_up(|token| matches!(&token.scope, TokenScope::Agent(id) if id == agent_id))
    }

    fn find(&self, secret: &[u8]) -> TokenLookup {
        let digest = blake3::hash(secret);
        // Digests are compared in constant time.
        self.look_up(|token| blake3::Hash::from_hex(&token.digest).is_ok_and(|of| of == digest))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn token_is_valid_until_revoked_and_its_secret_is_not_stored() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenFile::new(directory.path());
        assert_eq!(tokens.find(b"anything"), TokenLookup::Absent);
        let name = Some("bridge".to_owned());
        let (record, secret) = tokens.create(TokenScope::Client, name).unwrap();
        let (other, _) = tokens.create(TokenScope::Admin, None).unwrap();
        assert_eq!(
            tokens.find(secret.as_bytes()),
            TokenLookup::Present(record.clone())
        );
        assert_eq!(tokens.find(b"anything"), TokenLookup::Absent);
        let file = directory.path().join(FILE);
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&secret), "{text}");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // Another process revokes it while this one runs.
        let other_process = TokenFile::new(directory.path());
        assert!(other_process.revoke(&record.id).unwrap());
        assert!(!other_process.revoke(&record.id).unwrap());
        assert_eq!(tokens.find(secret.as_bytes()), TokenLookup::Absent);
        assert_eq!(tokens.list().unwrap(), [other]);
    }

    #[test]
    fn unreadable_file_authenticates_no_client_and_is_left_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenFile::new(directory.path());
        let (record, secret) = tokens.create(TokenScope::Admin, None).unwrap();
        for text in ["{", r#"{"version": 2, "tokens": []}"#] {
            fs::write(directory.path().join(FILE), text).unwrap();
            assert_eq!(tokens.find(secret.as_bytes()), TokenLookup::Unknown);
            assert_eq!(tokens.by_id(&record.id), TokenLookup::Unknown);
            assert!(tokens.create(TokenScope::Admin, None).is_err());
            let left = fs::read_to_string(directory.path().join(FILE)).unwrap();
            assert_eq!(left, text);
        }
    }

    #[test]
    fn file_that_other_users_can_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenFile::new(directory.path());
        let (_, secret) = tokens.create(TokenScope::Admin, None).unwrap();
        let file = directory.path().join(FILE);
        let is_known = || {
            let tokens = TokenFile::new(directory.path());
            matches!(tokens.find(secret.as_bytes()), TokenLookup::Present(_))
        };
        assert!(is_known());
        for mode in [0o620, 0o602] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert!(!is_known(), "{mode:o}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        // Only root can give a file to another user.
        let other = fs::metadata(&file).unwrap().uid() + 1;
        if std::os::unix::fs::chown(&file, Some(other), None).is_ok() {
            assert!(!is_known(), "of another user");
            let refused = tokens.list().unwrap_err().to_string();
            assert!(refused.contains(&format!("uid {other}")), "{refused}");
        }
    }
}
