//! Authentication settings of the daemon.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use windlass_server::{Access, Token, TokenFile, Tokens};

use super::Serve;
use crate::cli::note;
use crate::daemon::made_token;

impl Serve {
    /// Determines the access settings before any file is opened; `None` if a token must be generated.
    pub(super) fn access(&self, book: &Arc<TokenFile>) -> anyhow::Result<Option<Access>> {
        if self.insecure {
            if !is_loopback(&self.host) {
                bail!(
                    "--insecure is only for a loopback address, and {} is open to others; give a token",
                    self.host
                );
            }
            return Ok(Some(Access::Open));
        }
        let given = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(made_token::read(file)?),
            (None, None) => from_environment(),
        };
        if let Some(token) = given {
            if token.trim().is_empty() {
                bail!("the token is blank; give one, or leave it out to have one made");
            }
            return Ok(Some(with(Some(Token::new(token.trim())), book)));
        }
        if is_loopback(&self.host) {
            return Ok(None);
        }
        if book.list()?.is_empty() {
            bail!(
                "refusing to listen on {} without a token; give one with --token or --token-file, or make one with \
                 `windlass token create`",
                self.host
            );
        }
        Ok(Some(with(None, book)))
    }
}

fn with(operator: Option<Token>, book: &Arc<TokenFile>) -> Access {
    let stored = Arc::clone(book) as Arc<dyn Tokens>;
    Access::Tokens { operator, stored }
}

/// Loads or creates the token of the data directory and reports its path.
pub(super) fn made(data: &Path, book: &Arc<TokenFile>) -> anyhow::Result<Access> {
    let (token, path) = made_token::kept(data)?;
    note(&format!("the token is in {}", path.display()));
    Ok(with(Some(Token::new(token)), book))
}

/// The environment variable with the token. It takes precedence over the names that other programs use.
pub(crate) const TOKEN_VARIABLE: &str = "WINDLASS_RUNTIME_TOKEN";

/// Returns the token from the environment; blank variables are ignored.
pub(crate) fn from_environment() -> Option<String> {
    let names = [
        TOKEN_VARIABLE,
        "CODEWHALE_RUNTIME_TOKEN",
        "DEEPSEEK_RUNTIME_TOKEN",
    ];
    names
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .map(|token| token.trim().to_owned())
        .find(|token| !token.is_empty())
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        // A host name is loopback only if all its addresses are.
        Err(_) => (host, 0).to_socket_addrs().is_ok_and(|mut addresses| {
            let mut any = false;
            let all = addresses.all(|address| {
                any = true;
                address.ip().is_loopback()
            });
            any && all
        }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use windlass_server::TokenScope;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_public_address_needs_a_token_and_a_stored_one_will_do() {
        let directory = tempfile::tempdir().unwrap();
        let book = Arc::new(TokenFile::new(directory.path()));
        let parsed = Cli::parse_from(["windlass", "serve", "--host", "192.0.2.1"]);
        let Command::Serve(serve) = parsed.command else {
            panic!("another command")
        };
        assert!(serve.access(&book).is_err());
        book.create(TokenScope::Client, None).unwrap();
        let access = serve.access(&book).unwrap();
        assert!(matches!(
            access,
            Some(Access::Tokens { operator: None, .. })
        ));
    }
}
