//! Logs failures of model providers, at a limited rate per provider.

use std::collections::HashMap;
use std::sync::Mutex;

use chrono::{DateTime, TimeDelta, Utc};
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError};

use windlass_core::lock::lock;

/// How long further failures of a provider are not logged.
const SILENT_FOR: TimeDelta = TimeDelta::minutes(5);

/// Providers with logged failures, by name and host, and the time of the log line.
#[derive(Debug, Default)]
pub(crate) struct ProviderFailureLog {
    logged_at: Mutex<HashMap<(String, String), DateTime<Utc>>>,
}

impl ProviderFailureLog {
    /// Records why a model call failed after all retries. The provider's own text is not logged, because it may quote the conversation.
    pub(crate) fn note(&self, error: &AgentLoopError, now: DateTime<Utc>) {
        let AgentLoopError::Provider(error) = error else {
            return;
        };
        if let Some((provider, host)) = self.should_log(error, now) {
            tracing::warn!(
                provider,
                host,
                kind = error.kind.as_str(),
                status = error.status,
                "calls of a model provider fail: {}; further failures are not logged for {} minutes",
                error.kind.advice().unwrap_or("try again later"),
                SILENT_FOR.num_minutes(),
            );
        }
    }

    /// Returns provider and host if the error concerns the operator and was not logged recently.
    fn should_log(&self, error: &ProviderError, now: DateTime<Utc>) -> Option<(String, String)> {
        // Other errors concern a single request.
        if !error.kind.is_transient() && error.kind != ErrorKind::Auth {
            return None;
        }
        let model = error.asked.as_ref()?;
        let host = model.host.as_deref().unwrap_or("its own");
        let key = (model.provider.clone(), host.to_owned());
        let mut logged_at = lock(&self.logged_at);
        let last = logged_at.insert(key.clone(), now);
        match last.filter(|last| now - *last < SILENT_FOR) {
            // The interval starts at the last logged failure, so a lasting outage is logged again.
            Some(last) => {
                logged_at.insert(key, last);
                None
            }
            None => Some(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::error::AskedModel;

    use super::*;

    fn error(kind: ErrorKind, provider: &str, host: Option<&str>) -> ProviderError {
        let model = AskedModel {
            provider: provider.to_owned(),
            model: Some("m".to_owned()),
            host: host.map(str::to_owned),
        };
        ProviderError {
            asked: Some(Box::new(model)),
            ..ProviderError::new(kind, "boom")
        }
    }

    #[test]
    fn failing_provider_is_logged_at_a_limited_rate() {
        let log = ProviderFailureLog::default();
        let start = DateTime::UNIX_EPOCH;
        let at = |minutes| start + TimeDelta::minutes(minutes);
        let down = error(ErrorKind::Network, "openai", Some("10.0.0.1:80"));
        let logged = Some(("openai".to_owned(), "10.0.0.1:80".to_owned()));
        assert_eq!(log.should_log(&down, start), logged);
        assert_eq!(log.should_log(&down, at(1)), None);
        assert_eq!(log.should_log(&down, at(4)), None);
        let other = error(ErrorKind::Auth, "anthropic", None);
        let own = Some(("anthropic".to_owned(), "its own".to_owned()));
        assert_eq!(log.should_log(&other, at(4)), own);
        assert_eq!(log.should_log(&down, at(5)), logged);
    }

    #[test]
    fn errors_of_a_single_request_are_not_logged() {
        let log = ProviderFailureLog::default();
        for kind in [
            ErrorKind::TooLarge,
            ErrorKind::Refused,
            ErrorKind::BadRequest,
            ErrorKind::Cancelled,
        ] {
            let error = error(kind, "openai", None);
            assert_eq!(log.should_log(&error, DateTime::UNIX_EPOCH), None);
        }
    }
}
