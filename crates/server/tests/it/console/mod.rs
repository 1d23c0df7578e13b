//! The web console: pages, logins of browsers, and the operations that it reads with.

mod logins;
mod pages;
mod records;
mod runs;
mod sockets;
mod state;
mod waits;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::json;
use windlass_runtime::ManualClock;
use windlass_server::{Logins, Settings};

use crate::support::{Client, MultiTokenDaemon, Reply, text};

/// A daemon where browsers can log in.
struct ConsoleDaemon {
    home: MultiTokenDaemon,
    logins: Logins,
    clock: ManualClock,
    _directory: tempfile::TempDir,
}

impl ConsoleDaemon {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Settings) + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::at("2026-11-20T12:00:00Z".parse::<DateTime<Utc>>().unwrap());
        let logins = Logins::with_clock(directory.path(), Arc::new(clock.clone()));
        let of_daemon = logins.clone();
        let home = MultiTokenDaemon::with(move |settings| {
            settings.logins = Some(of_daemon);
            change(settings);
        })
        .await;
        Self {
            home,
            logins,
            clock,
            _directory: directory,
        }
    }

    /// A page of the daemon's own origin, not logged in.
    fn page(&self) -> Client {
        let client = self.home.daemon.client.anonymous();
        let origin = format!("http://{}", client.address);
        client.with("origin", &origin)
    }

    async fn log_in_with(&self, body: serde_json::Value) -> Reply {
        self.page().post("/console/login", body).await
    }

    /// Logs in with a code.
    async fn browser(&self) -> Browser {
        let code = self.logins.create_code().unwrap();
        Browser::new(self, self.log_in_with(json!({ "code": code })).await)
    }
}

/// A browser with a session.
struct Browser {
    page: Client,
    cookie: String,
    key: String,
}

impl Browser {
    #[track_caller]
    fn new(daemon: &ConsoleDaemon, reply: Reply) -> Self {
        let cookie = reply.header("set-cookie").unwrap_or_default().to_owned();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert!(attributes.contains("HttpOnly") && attributes.contains("SameSite=Strict"));
        Self {
            page: daemon.page(),
            cookie: pair.to_owned(),
            key: text(&reply.expect(200)["key"]),
        }
    }

    fn client(&self) -> Client {
        self.page
            .with("cookie", &self.cookie)
            .with("x-windlass-key", &self.key)
    }

    fn without_key(&self) -> Client {
        self.page.with("cookie", &self.cookie)
    }

    fn without_cookie(&self) -> Client {
        self.page.with("x-windlass-key", &self.key)
    }
}
