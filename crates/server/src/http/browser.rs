//! Sessions of browsers: the cookie and the key of a request, and the addresses where browsers may log in.

use axum::http::{HeaderMap, HeaderName};
use windlass_service::{ApiCaller, ApiError, SessionLookup, Settings, tokens_unavailable};

use super::{auth, host};
use crate::app::SharedApp;

/// The header with the key of a session.
pub(crate) const KEY: HeaderName = HeaderName::from_static("x-windlass-key");

/// The cookie with the other secret of a session. A browser accepts the second one only over TLS, for this host name and every path.
const COOKIE: &str = "windlass_console";
const SECURE_COOKIE: &str = "__Host-windlass_console";

/// The connection of a browser, by the address in its address bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrowserConnection {
    /// Within one machine.
    Loopback,
    /// With TLS, through the operator's proxy.
    Tls,
    /// Possibly readable by others.
    Insecure,
}

impl BrowserConnection {
    pub(crate) fn of(settings: &Settings, headers: &HeaderMap) -> Self {
        let Some(host) = host::of(headers) else {
            return Self::Insecure;
        };
        let public = settings.public_url.as_ref();
        if public.is_some_and(|public| public.is_host(host)) {
            Self::Tls
        } else if host::is_loopback(host) {
            Self::Loopback
        } else {
            Self::Insecure
        }
    }

    fn cookie_name(self) -> Option<&'static str> {
        match self {
            Self::Loopback => Some(COOKIE),
            Self::Tls => Some(SECURE_COOKIE),
            Self::Insecure => None,
        }
    }

    /// Returns the value of the header `Set-Cookie`; `None` if no browser may log in here.
    #[cfg(feature = "console")]
    pub(crate) fn set_cookie(self, value: &str, seconds: u32) -> Option<String> {
        let name = self.cookie_name()?;
        let secure = if self == Self::Tls { "; Secure" } else { "" };
        Some(format!(
            "{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        ))
    }
}

/// Returns the session cookie of a request from a page of the daemon.
pub(crate) fn cookie<'a>(settings: &Settings, headers: &'a HeaderMap) -> Option<&'a str> {
    settings.logins.as_ref()?;
    let name = BrowserConnection::of(settings, headers).cookie_name()?;
    let mut pairs = auth::cookie_pairs(headers).filter(|(known, _)| *known == name);
    let (_, value) = pairs.next()?;
    auth::is_same_origin(headers).then_some(value)
}

/// Returns the client of a browser's session. Cookie and key are both required.
pub(super) fn session(
    settings: &Settings,
    headers: &HeaderMap,
) -> Result<Option<ApiCaller>, ApiError> {
    let (Some(logins), Some(cookie), Some(key)) = (
        &settings.logins,
        cookie(settings, headers),
        headers.get(KEY),
    ) else {
        return Ok(None);
    };
    match logins.find(&settings.access, cookie.as_bytes(), key.as_bytes()) {
        SessionLookup::Present(caller) => Ok(Some(caller)),
        SessionLookup::Absent => Ok(None),
        SessionLookup::Unknown => Err(tokens_unavailable()),
    }
}

/// Records from time to time that a session is in use.
pub(super) fn note_use(app: &SharedApp, caller: &ApiCaller) {
    let logins = app.service.settings.logins.clone();
    if let (Some(id), Some(logins)) = (caller.session.clone(), logins)
        && logins.needs_note(&id)
    {
        tokio::task::spawn_blocking(move || logins.note_use(&id));
    }
}
