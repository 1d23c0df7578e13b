//! Run tracing over a real socket.

mod bad_input;
mod basic_scenarios;
mod both_transports;
mod disk;
mod documented_example;
mod many_runs;
mod own_runs;
mod sessions;
mod shortcomings;
mod shortcomings_more;
pub(crate) mod socket;
mod strict;
mod unreadable_values;

use std::time::Duration;

use serde_json::{Value, json};
use windlass_server::{Access, Settings};

use crate::support::{MultiTokenDaemon, Setup, TOKEN, TestDaemon};
use socket::RpcSocket;

/// Time limit for expected events.
const LIVENESS: Duration = Duration::from_secs(20);

impl MultiTokenDaemon {
    /// Connects without sending anything.
    async fn silent(&self) -> RpcSocket {
        RpcSocket::connect(self.daemon.client.address).await
    }

    /// Connects with a client token.
    async fn unbound(&self) -> RpcSocket {
        let mut socket = self.silent().await;
        let (_, token) = self.token("client");
        socket.ok("session.auth", json!({"token": token})).await;
        socket
    }

    /// Connects with the operator's token, without requesting the host role.
    async fn operator(&self) -> RpcSocket {
        let mut socket = self.silent().await;
        socket.ok("session.auth", json!({"token": TOKEN})).await;
        socket
    }

    pub(crate) async fn bound(&self, agent_id: &str, token: &str) -> RpcSocket {
        let mut socket = self.silent().await;
        let params = json!({"agent_id": agent_id, "token": token});
        let answer = socket.ok("session.auth", params).await;
        assert_eq!(
            answer,
            json!({"ok": true, "auth_enabled": true, "agent_id": agent_id})
        );
        socket
    }

    async fn host(&self) -> RpcSocket {
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
async fn open_daemon(change: impl FnOnce(&mut Settings) + 'static) -> TestDaemon {
    let setup = Setup::settings(move |settings| {
        settings.access = Access::Open;
        settings.rpc.grace = Duration::from_millis(50);
        change(settings);
    });
    setup.start().await
}
