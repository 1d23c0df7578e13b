//! Logs that a provider fails, at a limited rate for each provider, however many turns fail meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError};

/// How long further failures of a provider are not logged.
const SILENT_FOR: TimeDelta = TimeDelta::minutes(5);

/// Providers with logged failures, by name and host, and the time of the log line.
#[derive(Debug, Default)]
pub(crate) struct ProviderTrouble {
    told: Mutex<HashMap<(String, String), DateTime<Utc>>>,
}

impl ProviderTrouble {
    /// Records why a model call failed after all retries. The provider's own text is not logged, because it may quote the conversation.
    pub(crate) fn note(&self, error: &AgentLoopError, now: DateTime<Utc>) {
        let AgentLoopError::Provider(error) = error else {
            return;
        };
        if let Some((provider, host)) = self.is_news(error, now) {
            tracing::warn!(
                provider,
                host,
                kind = error.kind.as_str(),
                status = error.status,
                "calls of a model provider fail: {}; the next {} minutes nothing more is said of it",
                error.kind.advice().unwrap_or("try again later"),
                SILENT_FOR.num_minutes(),
            );
        }
    }

    /// Returns provider and host if the error concerns the operator and was not logged recently.
    fn is_news(&self, error: &ProviderError, now: DateTime<Utc>) -> Option<(String, String)> {
        // Other errors concern a single request.
        if !error.kind.is_transient() && error.kind != ErrorKind::Auth {
            return None;
        }
        let asked = error.asked.as_ref()?;
        let host = asked.host.as_deref().unwrap_or("its own");
        let who = (asked.provider.clone(), host.to_owned());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let last = told.insert(who.clone(), now);
        match last.filter(|last| now - *last < SILENT_FOR) {
            // The interval starts at the last logged failure, so a lasting outage is logged again.
            Some(last) => {
                told.insert(who, last);
                None
            }
            None => Some(who),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::error::AskedModel;

    use super::*;

    fn error(kind: ErrorKind, provider: &str, host: Option<&str>) -> ProviderError {
        let asked = AskedModel {
            provider: provider.to_owned(),
            model: Some("m".to_owned()),
            host: host.map(str::to_owned),
        };
        ProviderError {
            asked: Some(Box::new(asked)),
            ..ProviderError::new(kind, "boom")
        }
    }

    #[test]
    fn each_provider_that_is_down_is_named_once_in_a_while() {
        let trouble = ProviderTrouble::default();
        let start = DateTime::UNIX_EPOCH;
        let at = |minutes| start + TimeDelta::minutes(minutes);
        let down = error(ErrorKind::Network, "openai", Some("10.0.0.1:80"));
        let named = Some(("openai".to_owned(), "10.0.0.1:80".to_owned()));
        assert_eq!(trouble.is_news(&down, start), named);
        assert_eq!(trouble.is_news(&down, at(1)), None);
        assert_eq!(trouble.is_news(&down, at(4)), None);
        let other = error(ErrorKind::Auth, "anthropic", None);
        let own = Some(("anthropic".to_owned(), "its own".to_owned()));
        assert_eq!(trouble.is_news(&other, at(4)), own);
        assert_eq!(trouble.is_news(&down, at(5)), named);
    }

    #[test]
    fn what_is_wrong_with_one_request_is_no_trouble_of_the_provider() {
        let trouble = ProviderTrouble::default();
        for kind in [
            ErrorKind::TooLarge,
            ErrorKind::Refused,
            ErrorKind::BadRequest,
            ErrorKind::Cancelled,
        ] {
            let error = error(kind, "openai", None);
            assert_eq!(trouble.is_news(&error, DateTime::UNIX_EPOCH), None);
        }
    }
}
