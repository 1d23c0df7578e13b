//! Tokens in a file of the data directory: digests, never secrets.
//!
//! They are not in the database, because only the daemon writes that, and tokens are made and revoked beside a daemon
//! that runs. The file is replaced as a whole, and read again when it is another one than before, so what was revoked
//! is refused with the next request.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{TokenScope, Tokens};
use crate::whole_file::{FileVersion, open_private, read_own, replace};

const FILE: &str = "tokens.json";
const LOCK: &str = "tokens.lock";
const VERSION: u32 = 1;

/// Why tokens cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenBookError {
    /// The file cannot be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file does not hold tokens.
    #[error("{} does not hold tokens that this program can read: {why}; it was left as it is", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Names the token; not a secret.
    pub id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it may be used for.
    pub scope: TokenScope,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The digest of its secret.
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u32,
    tokens: Vec<TokenRecord>,
}

#[derive(Debug, Default)]
struct TokenCache {
    mark: Option<FileVersion>,
    tokens: Vec<(blake3::Hash, TokenRecord)>,
}

/// The tokens of a data directory.
#[derive(Debug)]
pub struct TokenBook {
    directory: PathBuf,
    known: RwLock<TokenCache>,
}

impl TokenBook {
    /// Looks after the tokens of a directory, which must be there.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            known: RwLock::default(),
        }
    }

    /// Makes a token; returns its record and its secret, which is kept nowhere.
    pub fn create(
        &self,
        scope: TokenScope,
        name: Option<String>,
    ) -> Result<(TokenRecord, String), TokenBookError> {
        let random = || Uuid::new_v4().simple().to_string();
        let secret = format!("wl_{}{}", random(), random());
        let record = TokenRecord {
            id: format!("tok_{}", &random()[..12]),
            name,
            scope,
            created_at: Utc::now(),
            digest: blake3::hash(secret.as_bytes()).to_hex().to_string(),
        };
        self.change(|tokens| tokens.push(record.clone()))?;
        Ok((record, secret))
    }

    /// Lists the tokens, oldest first.
    pub fn list(&self) -> Result<Vec<TokenRecord>, TokenBookError> {
        let path = self.directory.join(FILE);
        let text = read_own(&path).map_err(|source| cannot("read", &path, source))?;
        let Some(text) = text else {
            return Ok(Vec::new());
        };
        let unreadable = |why: String| TokenBookError::Unreadable {
            path: path.clone(),
            why,
        };
        let contents: Contents =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        match contents.version {
            VERSION => Ok(contents.tokens),
            version => Err(unreadable(format!("it has version {version}"))),
        }
    }

    /// Revokes a token; tells whether it was there.
    pub fn revoke(&self, id: &str) -> Result<bool, TokenBookError> {
        self.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|token| token.id != id);
            tokens.len() < before
        })
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<TokenRecord>) -> T,
    ) -> Result<T, TokenBookError> {
        let lock = self.directory.join(LOCK);
        let held = open_private(&lock);
        let held = held.map_err(|source| cannot("open", &lock, source))?;
        held.lock()
            .map_err(|source| cannot("lock", &lock, source))?;
        let mut tokens = self.list()?;
        let result = change(&mut tokens);
        let version = VERSION;
        let path = self.directory.join(FILE);
        let contents = serde_json::to_vec_pretty(&Contents { version, tokens });
        let written = contents
            .map_err(io::Error::other)
            .and_then(|contents| replace(&path, &contents));
        written.map_err(|source| cannot("write", &path, source))?;
        Ok(result)
    }

    /// Returns what the file says, and reads it if it is another one. What cannot be read lets nobody in.
    fn known(&self) -> RwLockReadGuard<'_, TokenCache> {
        let mark = FileVersion::of(&self.directory.join(FILE));
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.mark == mark {
            return known;
        }
        drop(known);
        // What could not be read is read again the next time.
        let (mark, tokens) = match self.list() {
            Ok(tokens) => (mark, tokens),
            Err(error) => {
                tracing::error!(%error, "stored tokens do not count now");
                (None, Vec::new())
            }
        };
        let digested = |record: TokenRecord| {
            let digest = blake3::Hash::from_hex(&record.digest).ok()?;
            Some((digest, record))
        };
        let tokens = tokens.into_iter().filter_map(digested).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = TokenCache { mark, tokens };
        drop(known);
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens for TokenBook {
    fn has(&self, id: &str) -> bool {
        let known = self.known();
        known.tokens.iter().any(|(_, record)| record.id == id)
    }

    fn has_agent(&self, agent_id: &str) -> bool {
        let known = self.known();
        let mut scopes = known.tokens.iter().map(|(_, record)| &record.scope);
        scopes.any(|scope| matches!(scope, TokenScope::Agent(id) if id == agent_id))
    }

    /// All are looked at, whichever it is.
    fn find(&self, secret: &[u8]) -> Option<TokenRecord> {
        let digest = blake3::hash(secret);
        let known = self.known();
        let mut found = None;
        for (of, record) in &known.tokens {
            if *of == digest {
                found = Some(record);
            }
        }
        found.cloned()
    }
}

fn cannot(doing: &'static str, path: &Path, source: io::Error) -> TokenBookError {
    TokenBookError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_counts_until_it_is_revoked_and_its_secret_is_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let book = TokenBook::new(directory.path());
        assert_eq!(book.find(b"anything"), None);
        let named = Some("bridge".to_owned());
        let (record, secret) = book.create(TokenScope::Client, named).unwrap();
        let (other, _) = book.create(TokenScope::Admin, None).unwrap();
        assert_eq!(book.find(secret.as_bytes()), Some(record.clone()));
        assert_eq!(book.find(b"anything"), None);
        let file = directory.path().join(FILE);
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&secret), "{text}");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // Another process revokes it while this one runs.
        let beside = TokenBook::new(directory.path());
        assert!(beside.revoke(&record.id).unwrap());
        assert!(!beside.revoke(&record.id).unwrap());
        assert_eq!(book.find(secret.as_bytes()), None);
        assert_eq!(book.list().unwrap(), [other]);
    }

    #[test]
    fn a_file_that_is_no_book_lets_nobody_in_and_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let book = TokenBook::new(directory.path());
        let (_, secret) = book.create(TokenScope::Admin, None).unwrap();
        for text in ["{", r#"{"version": 2, "tokens": []}"#] {
            fs::write(directory.path().join(FILE), text).unwrap();
            assert_eq!(book.find(secret.as_bytes()), None);
            assert!(book.create(TokenScope::Admin, None).is_err());
            let left = fs::read_to_string(directory.path().join(FILE)).unwrap();
            assert_eq!(left, text);
        }
    }

    #[test]
    fn a_file_that_others_can_write_holds_no_tokens() {
        let directory = tempfile::tempdir().unwrap();
        let book = TokenBook::new(directory.path());
        let (_, secret) = book.create(TokenScope::Admin, None).unwrap();
        let file = directory.path().join(FILE);
        let is_known = || {
            TokenBook::new(directory.path())
                .find(secret.as_bytes())
                .is_some()
        };
        assert!(is_known());
        for mode in [0o620, 0o602] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert!(!is_known(), "{mode:o}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if std::os::unix::fs::chown(&file, Some(65534), None).is_ok() {
            assert!(!is_known(), "of another user");
            assert!(book.list().unwrap_err().to_string().contains("uid 65534"));
        }
    }
}
