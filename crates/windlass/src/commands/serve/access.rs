//! Authentication settings of the daemon.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use windlass_server::{Access, Token, TokenFile, Tokens};

use super::Serve;
use crate::cli::note;
use crate::daemon::api_token;

impl Serve {
    /// Returns the access settings; `None` if a token must be generated. No file is written yet.
    pub(super) fn access(&self, tokens: &Arc<TokenFile>) -> anyhow::Result<Option<Access>> {
        if self.insecure {
            if !is_loopback(&self.host) {
                bail!(
                    "--insecure requires a loopback address, and other machines can reach {}; use a token",
                    self.host
                );
            }
            return Ok(Some(Access::Open));
        }
        let given = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(api_token::read(file)?),
            (None, None) => from_environment(),
        };
        if let Some(token) = given {
            if token.trim().is_empty() {
                bail!("the token is blank; set one, or omit the flag to generate one");
            }
            return Ok(Some(token_access(Some(Token::new(token.trim())), tokens)));
        }
        if is_loopback(&self.host) {
            return Ok(None);
        }
        if tokens.list()?.is_empty() {
            bail!(
                "refusing to listen on {} without a token; set one with --token or --token-file, or create one with \
                 `windlass token create`",
                self.host
            );
        }
        Ok(Some(token_access(None, tokens)))
    }
}

fn token_access(operator: Option<Token>, tokens: &Arc<TokenFile>) -> Access {
    let stored = Arc::clone(tokens) as Arc<dyn Tokens>;
    Access::Tokens { operator, stored }
}

/// Loads or creates the token of the data directory and reports its path.
pub(super) fn created(data: &Path, tokens: &Arc<TokenFile>) -> anyhow::Result<Access> {
    let (token, path) = api_token::load_or_create(data)?;
    note(format!("the token is in {}", path.display()));
    Ok(token_access(Some(Token::new(token)), tokens))
}

/// Environment variable with the token. It takes precedence over the variables of other programs.
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
    fn public_address_requires_a_token_which_may_be_stored() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = Arc::new(TokenFile::new(directory.path()));
        let parsed = Cli::parse_from(["windlass", "serve", "--host", "192.0.2.1"]);
        let Command::Serve(serve) = parsed.command else {
            panic!("another command")
        };
        assert!(serve.access(&tokens).is_err());
        tokens.create(TokenScope::Client, None).unwrap();
        let access = serve.access(&tokens).unwrap();
        assert!(matches!(
            access,
            Some(Access::Tokens { operator: None, .. })
        ));
    }
}
