//! Errors of reading pages.

use std::net::IpAddr;

use windlass_core::egress::EgressError;
use windlass_core::network_access::is_private_address;

use crate::environments::EnvironmentError;

/// Why a page cannot be read. The model receives the message.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebError {
    #[error("this is not an address of a page: {0}")]
    Address(String),
    #[error("the address is not in the form in which it is sent; write it as {0}")]
    Spelling(String),
    #[error("the address contains a user name or a password; those are not sent")]
    Credentials,
    #[error(
        "the policy of environment `{environment}` allows no network, so no page is read for it"
    )]
    NoNetwork { environment: String },
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("this host offers no network")]
    NoEgress,
    #[error(
        "{url} is refused: it leads to {address}, which is not on the public internet; only the operator can allow it"
    )]
    Private { url: String, address: IpAddr },
    #[error(transparent)]
    Egress(EgressError),
    #[error("{from} redirects to {to}, which is not encrypted and is not followed")]
    Downgrade { from: String, to: String },
    #[error("{from} redirects to another host; request {to} with a separate call")]
    OtherHost { from: String, to: String },
    #[error("more than {0} redirects: they are not followed any further")]
    Redirects(usize),
    #[error("the page took longer than {0} ms")]
    Timeout(u128),
    #[error("{url} is `{kind}` (status {status}); only text, HTML and JSON are read")]
    ContentType {
        url: String,
        kind: String,
        status: u16,
    },
    #[error("{url} is compressed as `{encoding}`, which is not supported")]
    Encoding { url: String, encoding: String },
    #[error("the response of {0} cannot be decompressed")]
    Packed(String),
    #[error("{0} is declared as text but is not text")]
    NotText(String),
    #[error("{0} cannot be converted to text: an internal error occurred")]
    Broken(String),
}

impl From<EgressError> for WebError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::DeniedAddress { url, address } if is_private_address(address) => {
                Self::Private { url, address }
            }
            EgressError::Unavailable => Self::NoEgress,
            error => Self::Egress(error),
        }
    }
}
