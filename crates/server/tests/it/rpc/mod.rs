//! Run tracing over a real socket.

mod bad_input;
mod both;
mod carried;
mod disk;
mod many;
mod numbered;
mod numbered_more;
mod own_runs;
mod seed;
mod sessions;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_server::{Access, Settings, Token, TokenBook, TokenScope};

use crate::support::{Daemon, Setup, TOKEN};
use socket::Socket;

/// How long something may take that must happen.
const LIVENESS: Duration = Duration::from_secs(20);

/// A daemon that knows agents by their tokens.
struct Home {
    daemon: Daemon,
    tokens: TokenBook,
    _directory: tempfile::TempDir,
}

impl Home {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Settings) + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let book = Arc::new(TokenBook::new(directory.path()));
        let tokens = TokenBook::new(directory.path());
        let setup = Setup::settings(move |settings| {
            settings.access = Access::Tokens {
                operator: Some(Token::new(TOKEN)),
                stored: book,
            };
            settings.rpc.grace = Duration::from_millis(50);
            settings.rpc.limits.auth_delay = Duration::from_millis(1);
            change(settings);
        });
        Self {
            daemon: setup.start().await,
            tokens,
            _directory: directory,
        }
    }

    /// Registers an agent and returns its token.
    fn agent(&self, agent_id: &str) -> String {
        let scope = TokenScope::Agent(agent_id.to_owned());
        self.tokens.create(scope, None).unwrap().1
    }

    /// Connects without a word.
    async fn silent(&self) -> Socket {
        Socket::connect(self.daemon.client.address).await
    }

    /// Connects as anybody who has the server's token.
    async fn unbound(&self) -> Socket {
        let mut socket = self.silent().await;
        socket.ok("session.auth", json!({"token": TOKEN})).await;
        socket
    }

    async fn bound(&self, agent_id: &str, token: &str) -> Socket {
        let mut socket = self.silent().await;
        let params = json!({"agent_id": agent_id, "token": token});
        let answer = socket.ok("session.auth", params).await;
        assert_eq!(
            answer,
            json!({"ok": true, "auth_enabled": true, "agent_id": agent_id})
        );
        socket
    }

    async fn host(&self) -> Socket {
        let mut socket = self.silent().await;
        let answer = socket
            .ok("session.auth", json!({"host_token": TOKEN}))
            .await;
        assert_eq!(answer["role"], "host");
        socket
    }

    /// Waits until a run has ended, and returns the last record.
    async fn ended(&self, run_id: &str) -> Value {
        let mut host = self.host().await;
        host.ended(run_id).await
    }
}

/// A daemon that asks nobody.
async fn open_daemon(change: impl FnOnce(&mut Settings) + 'static) -> Daemon {
    let setup = Setup::settings(move |settings| {
        settings.access = Access::Open;
        settings.rpc.grace = Duration::from_millis(50);
        change(settings);
    });
    setup.start().await
}
