//! Options of a store.

use std::net::IpAddr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use windlass_core::setters;
use windlass_macros::OpaqueDebug;
use windlass_store::durable::chain::ChainKey;

use crate::error::PostgresError;

/// How long a connection may take, unless the URL specifies it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After which time without an answer a connection is lost, unless the URL specifies it.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);

const MAX_SCHEMA_NAME: usize = 40;

/// How a store is opened.
#[derive(OpaqueDebug, Clone)]
#[must_use]
pub struct PostgresOptions {
    /// The database, as `postgres://user:password@host/database`. TLS is not supported yet: `sslmode=require` is refused, and so is another
    /// machine unless the URL contains `sslmode=disable`.
    pub url: String,
    /// The schema with the tables of this store; `windlass` by default. It is created if it does not exist.
    pub schema: String,
    /// The key of the chain of digests. A database is bound to the key of its creation.
    pub chain_key: Option<ChainKey>,
    /// The maximum number of connections, in addition to the one for notifications; 16 by default.
    pub connections: usize,
}

impl PostgresOptions {
    /// Builds options with the default schema and without a key.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: "windlass".to_owned(),
            chain_key: None,
            connections: 16,
        }
    }

    setters! {
        /// Sets the schema.
        with_schema(String) |options, schema| options.schema = schema;
        /// Sets the key of the chain.
        with_chain_key(ChainKey) |options, key| options.chain_key = Some(key);
    }

    /// Checks the options and returns how to connect.
    pub(crate) fn config(&self) -> Result<Config, PostgresError> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let length = self.schema.len();
        if length == 0 || length > MAX_SCHEMA_NAME || !self.schema.bytes().all(is_name) {
            let shown: String = self.schema.chars().take(MAX_SCHEMA_NAME).collect();
            return Err(PostgresError::SchemaName(shown.escape_debug().to_string()));
        }
        let mut config: Config = self.url.parse().map_err(|error| url_error(&error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresError::Url("it contains no host".to_owned()));
        }
        check_tls(&config, &self.url)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_USER_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("windlass");
        }
        let given = config.get_options().unwrap_or_default();
        config.options(format!("{given} -c search_path={}", self.schema));
        Ok(config)
    }
}

/// Describes an unusable URL. The description does not contain the URL, which may contain a password.
fn url_error(error: &tokio_postgres::Error) -> PostgresError {
    PostgresError::Url(crate::error::describe(error))
}

fn check_tls(config: &Config, url: &str) -> Result<(), PostgresError> {
    let tls = |why: &str| Err(PostgresError::Tls(why.to_owned()));
    match config.get_ssl_mode() {
        SslMode::Disable => return Ok(()),
        SslMode::Prefer if !url.contains("sslmode") => {}
        SslMode::Prefer => {
            return tls("TLS is not supported yet, so `sslmode=prefer` has no effect; omit it");
        }
        _ => return tls("TLS is not supported yet, so `sslmode` can only be `disable`"),
    }
    let is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    };
    let addresses = config.get_hostaddrs();
    if config.get_hosts().iter().all(is_local) && addresses.iter().all(IpAddr::is_loopback) {
        Ok(())
    } else {
        tls(
            "the server is another machine, and TLS is not supported yet; connect through a tunnel, or add `sslmode=disable` \
             to the URL if the network is trusted",
        )
    }
}
