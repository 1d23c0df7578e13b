//! A daemon with several tokens.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windlass_server::{Access, Settings, Token, TokenFile, TokenScope};

use super::{Client, Setup, TOKEN, TestDaemon};

/// A daemon with several tokens.
pub(crate) struct MultiTokenDaemon {
    pub(crate) daemon: TestDaemon,
    pub(crate) tokens: TokenFile,
    directory: TempDir,
}

impl MultiTokenDaemon {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Settings) + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let book = Arc::new(TokenFile::new(directory.path()));
        let tokens = TokenFile::new(directory.path());
        let setup = Setup::settings(move |settings| {
            settings.access = Access::Tokens {
                operator: Some(Token::new(TOKEN)),
                stored: book,
            };
            settings.rpc.grace = Duration::from_millis(50);
            settings.rpc.limits.auth_delay = Duration::from_millis(1);
            change(settings);
        });
        let mut daemon = setup.start().await;
        daemon.client.token = Some(TOKEN.to_owned());
        Self {
            daemon,
            tokens,
            directory,
        }
    }

    /// Directory of the token file.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Creates a token; returns its ID and its secret.
    pub(crate) fn token(&self, scope: &str) -> (String, String) {
        let scope: TokenScope = scope.parse().unwrap();
        let (record, secret) = self.tokens.create(scope, None).unwrap();
        (record.id, secret)
    }

    /// Registers an agent and returns its token.
    pub(crate) fn agent(&self, agent_id: &str) -> String {
        self.token(&format!("agent:{agent_id}")).1
    }

    /// A client with this token.
    pub(crate) fn client(&self, secret: &str) -> Client {
        Client {
            token: Some(secret.to_owned()),
            ..self.daemon.client.clone()
        }
    }
}
