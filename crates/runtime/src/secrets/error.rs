//! Masks errors whose text may quote a secret, above all errors of providers.

use windlass_core::error::AgentLoopError;

use super::Mask;

impl Mask {
    /// Masks the texts of an error; its kind stays.
    pub(crate) fn error(&self, mut error: AgentLoopError) -> AgentLoopError {
        use AgentLoopError as E;
        match &mut error {
            E::Llm(text)
            | E::RequestTooLarge(text)
            | E::ModelNotAvailable(text)
            | E::ToolExecution(text)
            | E::MessageStore(text)
            | E::EventEmission(text)
            | E::Configuration(text)
            | E::StoreUnavailable(text)
            | E::DriverNotRegistered(text) => self.text(text),
            E::Provider(provider) => {
                self.text(&mut provider.message);
                self.optional(&mut provider.code);
                if let Some(model) = &mut provider.asked {
                    self.optional(&mut model.model);
                    self.optional(&mut model.host);
                }
            }
            E::Internal(cause) => {
                let mut chain = format!("{cause:#}");
                if self.replace(&mut chain) {
                    // No part of the chain can be shown unmasked.
                    return E::llm(chain);
                }
            }
            _ => {}
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::error::{ErrorKind, ProviderError};

    use super::*;
    use crate::secrets::Secret;

    #[test]
    fn r71_error_text_is_masked_and_its_kind_is_unchanged() {
        let mask = Mask::new(vec![Arc::new(Secret::new("key", "sk-0123456789"))]).unwrap();
        let text = "bad key sk-0123456789";
        for error in [
            AgentLoopError::llm(text),
            AgentLoopError::config(text),
            AgentLoopError::provider(ProviderError::from_status(401, text)),
            AgentLoopError::Internal(std::io::Error::other(text).into()),
        ] {
            let kind = error.kind();
            let masked = mask.error(error);
            let shown = format!("{masked} {masked:?}");
            assert!(
                shown.contains("bad key [secret:key]") && !shown.contains("sk-0"),
                "{shown}"
            );
            assert_eq!(masked.kind(), kind);
        }
        let other = mask.error(AgentLoopError::Cancelled);
        assert_eq!(other.kind(), ErrorKind::Cancelled);
    }
}
