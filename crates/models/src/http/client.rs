//! The HTTP clients, created on first use and shared by all drivers.

use std::sync::OnceLock;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Proxy, Url};
use windlass_core::error::{AgentLoopError, Result};

use crate::settings::HttpSettings;

/// One client per scheme: the one for plain HTTP, used for local servers, needs no certificates and
/// also works on systems without any.
#[derive(Debug)]
pub(crate) struct Clients {
    settings: HttpSettings,
    plain: OnceLock<std::result::Result<Client, String>>,
    tls: OnceLock<std::result::Result<Client, String>>,
}

impl Clients {
    pub(crate) fn new(settings: HttpSettings) -> Self {
        Self {
            settings,
            plain: OnceLock::new(),
            tls: OnceLock::new(),
        }
    }

    pub(crate) fn for_url(&self, url: &Url) -> Result<Client> {
        let client = if url.scheme() == "https" || self.settings.proxy.is_some() {
            self.tls.get_or_init(|| self.make(ClientBuilder::new()))
        } else {
            let no_certificates = ClientBuilder::new().tls_certs_only([]);
            self.plain.get_or_init(|| self.make(no_certificates))
        };
        client.clone().map_err(AgentLoopError::config)
    }

    fn make(&self, builder: ClientBuilder) -> std::result::Result<Client, String> {
        let settings = &self.settings;
        // A redirect would send the key to another host.
        let mut builder = builder
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(settings.connect_timeout)
            .user_agent(&settings.user_agent);
        if let Some(proxy) = &settings.proxy {
            // The URL is omitted because it may contain a password.
            let proxy = Proxy::all(proxy).map_err(|_| "the proxy's address is not valid")?;
            builder = builder.proxy(proxy);
        }
        for bundle in &settings.ca_certificates {
            let certificates = Certificate::from_pem_bundle(bundle)
                .map_err(|error| format!("a CA certificate cannot be read: {error}"))?;
            builder = builder.tls_certs_merge(certificates);
        }
        builder
            .build()
            .map_err(|error| format!("cannot create an HTTPS client: {error:?}"))
    }
}
