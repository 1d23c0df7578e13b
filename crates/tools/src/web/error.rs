//! Errors of reading pages.

use std::net::IpAddr;

use windlass_core::egress::EgressError;
use windlass_core::network_access::is_private_address;

use crate::environments::EnvironmentError;

/// Why a page cannot be read. The model receives the message.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebError {
    #[error("this is no address of a page: {0}")]
    Address(String),
    #[error("the address is not written as it would be sent; write it as {0}")]
    Spelling(String),
    #[error("the address holds a user name or a password; those are not sent")]
    Credentials,
    #[error(
        "environment `{environment}` has no network: its policy says so, and no page is read for it"
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
    #[error("{from} redirects to {to}, without encryption: that is not followed")]
    Downgrade { from: String, to: String },
    #[error("{from} redirects to another host; ask for {to} by a call of its own")]
    OtherHost { from: String, to: String },
    #[error("more than {0} redirects: they are not followed any further")]
    Redirects(usize),
    #[error("the page took longer than {0} ms")]
    Timeout(u128),
    #[error("{url} is `{kind}` (status {status}); only text, HTML and JSON are read")]
    Kind {
        url: String,
        kind: String,
        status: u16,
    },
    #[error("{url} is compressed as `{encoding}`, which is not known here")]
    Encoding { url: String, encoding: String },
    #[error("what {0} sent cannot be unpacked")]
    Packed(String),
    #[error("{0} says that it is text, and it is not")]
    NotText(String),
    #[error("{0} cannot be made into text: reading it failed inside of this host")]
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
