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
pub(crate) mod socket;
mod strict;
mod written;

use std::time::Duration;

use serde_json::{Value, json};
use windlass_server::{Access, Settings};

use crate::support::{Daemon, Home, Setup, TOKEN};
use socket::Socket;

/// Time limit for expected events.
const LIVENESS: Duration = Duration::from_secs(20);

impl Home {
    /// Connects without sending anything.
    async fn silent(&self) -> Socket {
        Socket::connect(self.daemon.client.address).await
    }

    /// Connects with a client token.
    async fn unbound(&self) -> Socket {
        let mut socket = self.silent().await;
        let (_, token) = self.token("client");
        socket.ok("session.auth", json!({"token": token})).await;
        socket
    }

    /// Connects with the operator's token, without requesting the host role.
    async fn operator(&self) -> Socket {
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

/// A daemon that requires no token.
async fn open_daemon(change: impl FnOnce(&mut Settings) + 'static) -> Daemon {
    let setup = Setup::settings(move |settings| {
        settings.access = Access::Open;
        settings.rpc.grace = Duration::from_millis(50);
        change(settings);
    });
    setup.start().await
}
