//! Logins of browsers: codes for one login, and sessions.
//!
//! A session consists of two secrets. Browsers send the cookie with every request to the host name, whatever the port, so every program that serves
//! this host name receives it. Only pages of the daemon's own origin can read the key. A request needs both. The file contains digests, and a running
//! daemon sees changes of other processes at once, as with [tokens](super::TokenFile).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::{Clock, SystemClock};
use windlass_protocol::ErrorCode;

use super::{ApiCaller, TokenLookup, TokenScope, authenticate, tokens_unavailable};
use crate::error::{ApiError, Result};
use crate::json_file::{FileState, JsonContents, JsonFile, JsonFileError};
use crate::settings::Access;

const FILE: &str = "logins.json";
/// Prefix of session IDs; IDs of tokens have another one.
const PREFIX: &str = "login_";
/// How long a code is valid.
const CODE_TIME: TimeDelta = TimeDelta::minutes(5);
/// How long a session is valid without a request, and in total.
const IDLE_TIME: TimeDelta = TimeDelta::hours(12);
const SESSION_TIME: TimeDelta = TimeDelta::days(30);
/// A request is recorded as the last one of its session if the recorded one is older than this.
const USE_INTERVAL: TimeDelta = TimeDelta::minutes(5);
/// Maximum numbers of codes and sessions; the oldest are removed first.
const MAX_CODES: usize = 16;
const MAX_SESSIONS: usize = 256;
/// Maximum number of sessions of one token, or of the operator.
const MAX_OWN_SESSIONS: usize = 16;
/// Maximum number of refused logins in a period.
const MAX_REFUSED: u32 = 10;
const REFUSED_PERIOD: Duration = Duration::from_secs(60);

/// A code that a browser can exchange for a session of the operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredCode {
    digest: String,
    expires_at: DateTime<Utc>,
}

/// A session with the rights of a token.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredSession {
    id: String,
    /// Digests of the two secrets.
    cookie: String,
    key: String,
    /// The stored token that it was created with; `None` for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
    scope: TokenScope,
    /// Identifies the operator's token at the time of the login, so that the session ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    created_at: DateTime<Utc>,
    used_at: DateTime<Utc>,
}

impl StoredSession {
    fn has_expired(&self, now: DateTime<Utc>) -> bool {
        now - self.used_at > IDLE_TIME || now - self.created_at > SESSION_TIME
    }

    /// Returns whether the token of the session is still valid.
    fn lookup(&self, access: &Access, now: DateTime<Utc>) -> SessionLookup {
        if self.has_expired(now) {
            return SessionLookup::Absent;
        }
        let is_valid = match (access, &self.token_id) {
            (Access::Open, _) => false,
            (Access::Tokens { stored, .. }, Some(id)) => match stored.by_id(id) {
                TokenLookup::Present(token) => token.scope == self.scope,
                TokenLookup::Absent => false,
                TokenLookup::Unknown => return SessionLookup::Unknown,
            },
            (Access::Token(_), Some(_)) => false,
            (_, None) => self.operator == access.operator_fingerprint(),
        };
        if is_valid {
            SessionLookup::Present(self.caller())
        } else {
            SessionLookup::Absent
        }
    }

    fn caller(&self) -> ApiCaller {
        ApiCaller {
            token_id: self.token_id.clone(),
            scope: self.scope.clone(),
            session: Some(self.id.clone()),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredLogins {
    version: u32,
    codes: Vec<StoredCode>,
    sessions: Vec<StoredSession>,
}

impl Default for StoredLogins {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            codes: Vec::new(),
            sessions: Vec::new(),
        }
    }
}

impl JsonContents for StoredLogins {
    const VERSION: u32 = 1;
    const WHAT: &'static str = "logins";

    fn version(&self) -> u32 {
        self.version
    }
}

impl StoredLogins {
    /// Removes a session if there are too many for another one of this token: its own oldest one, else one of another token, so that no token can end
    /// the operator's sessions.
    fn make_room(&mut self, token_id: Option<&str>) {
        let is_own = |session: &StoredSession| session.token_id.as_deref() == token_id;
        let own = self.sessions.iter().filter(|session| is_own(session));
        let removed = if own.count() >= MAX_OWN_SESSIONS {
            self.sessions.iter().position(is_own)
        } else if self.sessions.len() >= MAX_SESSIONS {
            let of_token = self
                .sessions
                .iter()
                .position(|session| session.token_id.is_some());
            of_token.or(Some(0))
        } else {
            None
        };
        if let Some(at) = removed {
            self.sessions.remove(at);
        }
    }

    fn remove_expired(&mut self, now: DateTime<Utc>) {
        self.codes.retain(|code| code.expires_at > now);
        self.sessions.retain(|session| !session.has_expired(now));
    }
}

/// What a browser logs in with.
pub enum LoginSecret<'a> {
    /// A code of [`Logins::create_code`].
    Code(&'a str),
    /// The secret of a token, which the user pastes.
    Token(&'a str),
}

/// The secrets of a new session. They are not stored.
#[derive(Debug)]
pub struct NewSession {
    /// Value of the cookie.
    pub cookie: String,
    /// The key for the header of each request.
    pub key: String,
    /// Rights of the session.
    pub caller: ApiCaller,
}

/// Result of a session lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionLookup {
    /// The session is valid.
    Present(ApiCaller),
    /// The session does not exist, was revoked or has expired, or its token is no longer valid.
    Absent,
    /// The logins or the tokens cannot be read now.
    Unknown,
}

/// The logins of a data directory; clones share them.
#[derive(Clone)]
pub struct Logins(Arc<LoginState>);

struct LoginState {
    file: JsonFile<StoredLogins>,
    clock: Arc<dyn Clock>,
    refused: Mutex<Refused>,
}

/// Refused logins in the current period.
#[derive(Default)]
struct Refused {
    begun: Duration,
    count: u32,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").finish_non_exhaustive()
    }
}

impl Logins {
    /// Uses the logins of a directory, which must exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::with_clock(directory, Arc::new(SystemClock))
    }

    /// Uses the logins of a directory with another clock.
    pub fn with_clock(directory: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(LoginState {
            file: JsonFile::new(directory.into().join(FILE)),
            clock,
            refused: Mutex::default(),
        }))
    }

    /// Creates a code with which one browser can log in as the operator within five minutes.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn create_code(&self) -> Result<String, JsonFileError> {
        let (code, now) = (secret(), self.0.clock.now());
        self.0.file.update(|logins| {
            logins.remove_expired(now);
            let excess = (logins.codes.len() + 1).saturating_sub(MAX_CODES);
            logins.codes.drain(..excess);
            logins.codes.push(StoredCode {
                digest: digest(&code),
                expires_at: now + CODE_TIME,
            });
        })?;
        Ok(code)
    }

    /// Exchanges a code or a token for a session. Blocks on the file.
    ///
    /// # Errors
    /// The secret is not valid, or too many logins were refused.
    pub fn log_in(&self, access: &Access, login: &LoginSecret<'_>) -> Result<NewSession> {
        // A code cannot be guessed, so the guesses of other clients do not block it.
        let is_guessable = matches!(login, LoginSecret::Token(_));
        if is_guessable {
            self.check_refused()?;
        }
        let created = match login {
            LoginSecret::Code(code) => self.redeem(access, code)?,
            LoginSecret::Token(token) => match authenticate(access, token.trim().as_bytes())? {
                Some(caller) => self.create_session(access, caller, None)?,
                None => None,
            },
        };
        created.ok_or_else(|| {
            if is_guessable {
                self.count_refused();
            }
            ApiError::new(
                ErrorCode::Unauthorized,
                "the login is not valid: a code works once and for five minutes; `windlass console` prints another",
            )
        })
    }

    fn redeem(&self, access: &Access, code: &str) -> Result<Option<NewSession>> {
        let FileState::Present(logins) = &*self.current()? else {
            return Ok(None);
        };
        // A wrong code does not cost a write.
        let now = self.0.clock.now();
        if !logins.codes.iter().any(|stored| stored.is(code, now)) {
            return Ok(None);
        }
        let caller = ApiCaller::operator();
        self.create_session(access, caller, Some(code))
    }

    /// Stores a new session and removes the code that it was created with; `None` if that was used meanwhile.
    fn create_session(
        &self,
        access: &Access,
        caller: ApiCaller,
        code: Option<&str>,
    ) -> Result<Option<NewSession>> {
        let (cookie, key, now) = (secret(), secret(), self.0.clock.now());
        let session = StoredSession {
            id: format!("{PREFIX}{}", &secret()[..16]),
            cookie: digest(&cookie),
            key: digest(&key),
            operator: match caller.token_id {
                Some(_) => None,
                None => access.operator_fingerprint(),
            },
            token_id: caller.token_id,
            scope: caller.scope,
            created_at: now,
            used_at: now,
        };
        let caller = session.caller();
        let stored = self.0.file.update(|logins| {
            logins.remove_expired(now);
            if let Some(code) = code {
                let before = logins.codes.len();
                logins.codes.retain(|stored| !stored.is(code, now));
                if logins.codes.len() == before {
                    return false;
                }
            }
            logins.make_room(session.token_id.as_deref());
            logins.sessions.push(session);
            true
        });
        let is_stored = stored.map_err(unavailable)?;
        Ok(is_stored.then_some(NewSession {
            cookie,
            key,
            caller,
        }))
    }

    /// Returns the caller of a session by both of its secrets.
    pub fn find(&self, access: &Access, cookie: &[u8], key: &[u8]) -> SessionLookup {
        let (cookie, key) = (blake3::hash(cookie), blake3::hash(key));
        let is = |stored: &str, hash: blake3::Hash| {
            // Digests are compared in constant time.
            blake3::Hash::from_hex(stored).is_ok_and(|stored| stored == hash)
        };
        self.look_up(access, |session| {
            is(&session.cookie, cookie) & is(&session.key, key)
        })
    }

    /// Returns the caller of a session by its ID.
    pub fn by_id(&self, access: &Access, id: &str) -> SessionLookup {
        self.look_up(access, |session| session.id == id)
    }

    fn look_up(&self, access: &Access, is_it: impl Fn(&StoredSession) -> bool) -> SessionLookup {
        match &*self.0.file.current() {
            FileState::Unknown(_) => SessionLookup::Unknown,
            FileState::Absent => SessionLookup::Absent,
            FileState::Present(logins) => {
                let matching = logins.sessions.iter().filter(|session| is_it(session));
                let found = matching.last();
                let now = self.0.clock.now();
                found.map_or(SessionLookup::Absent, |it| it.lookup(access, now))
            }
        }
    }

    /// Returns whether the use of a session must be recorded.
    pub fn needs_note(&self, id: &str) -> bool {
        let now = self.0.clock.now();
        let is_old = |session: &StoredSession| now - session.used_at > USE_INTERVAL;
        match &*self.0.file.current() {
            FileState::Present(logins) => {
                let mut sessions = logins.sessions.iter();
                sessions.any(|session| session.id == id && is_old(session))
            }
            FileState::Absent | FileState::Unknown(_) => false,
        }
    }

    /// Records that a session was used. Blocks on the file.
    pub fn note_use(&self, id: &str) {
        let now = self.0.clock.now();
        let noted = self.0.file.update(|logins| {
            logins.remove_expired(now);
            let mut sessions = logins.sessions.iter_mut();
            if let Some(session) = sessions.find(|session| session.id == id) {
                session.used_at = now;
            }
        });
        if let Err(error) = noted {
            tracing::warn!(%error, "the use of a browser session could not be recorded");
        }
    }

    /// Ends a session; returns whether it existed. Blocks on the file.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn log_out(&self, id: &str) -> Result<bool> {
        let removed = self.0.file.update(|logins| {
            let before = logins.sessions.len();
            logins.sessions.retain(|session| session.id != id);
            logins.sessions.len() < before
        });
        removed.map_err(unavailable)
    }

    /// Ends all sessions and withdraws all codes; returns the number of sessions.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn log_out_all(&self) -> Result<usize, JsonFileError> {
        self.0.file.update(|logins| {
            logins.codes.clear();
            logins.sessions.drain(..).count()
        })
    }

    fn current(&self) -> Result<Arc<FileState<StoredLogins>>> {
        let state = self.0.file.current();
        match &*state {
            FileState::Unknown(_) => Err(tokens_unavailable()),
            _ => Ok(state),
        }
    }

    fn check_refused(&self) -> Result<()> {
        let now = self.0.clock.elapsed();
        let mut refused = self.0.refused.lock();
        if now.saturating_sub(refused.begun) >= REFUSED_PERIOD {
            *refused = Refused {
                begun: now,
                count: 0,
            };
        }
        if refused.count < MAX_REFUSED {
            return Ok(());
        }
        Err(ApiError::limit(
            "refused logins in a minute",
            MAX_REFUSED as usize,
        ))
    }

    fn count_refused(&self) {
        let mut refused = self.0.refused.lock();
        refused.count += 1;
        if refused.count == MAX_REFUSED {
            tracing::warn!("{MAX_REFUSED} logins of browsers were refused within a minute");
        }
    }
}

impl StoredCode {
    fn is(&self, code: &str, now: DateTime<Utc>) -> bool {
        let hash = blake3::hash(code.as_bytes());
        self.expires_at > now && blake3::Hash::from_hex(&self.digest).is_ok_and(|it| it == hash)
    }
}

fn unavailable(error: JsonFileError) -> ApiError {
    tracing::error!(%error, "the logins of browsers cannot be changed");
    tokens_unavailable()
}

/// Returns a new secret of 128 random bits.
fn secret() -> String {
    // Each UUID has 122 random bits.
    let random = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
    blake3::hash(&random).to_hex()[..32].to_owned()
}

fn digest(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

/// Returns whether the ID of a credential is that of a session.
pub(crate) fn is_session(id: &str) -> bool {
    id.starts_with(PREFIX)
}
