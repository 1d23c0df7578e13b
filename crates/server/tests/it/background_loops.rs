//! Background loops that panic are restarted, and `/ready` reports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass_server::{Access, Token, TokenFile, TokenLookup, TokenScope, Tokens};

use crate::support::{Client, Setup, TOKEN, soon, text};

/// Tokens whose lookup by ID panics on demand; in this test only the loop that ends streams of revoked tokens looks one up.
#[derive(Debug)]
struct Faulty {
    book: TokenFile,
    panics: AtomicBool,
}

impl Tokens for Faulty {
    fn find(&self, secret: &[u8]) -> TokenLookup {
        self.book.find(secret)
    }

    fn by_id(&self, id: &str) -> TokenLookup {
        assert!(!self.panics.load(Ordering::SeqCst), "a fault in a loop");
        self.book.by_id(id)
    }

    fn by_agent(&self, agent_id: &str) -> TokenLookup {
        self.book.by_agent(agent_id)
    }
}

async fn until_ready_is(client: &Client, status: u16) {
    let seen = async {
        while client.get("/ready").await.status != status {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(seen).await;
}

#[tokio::test]
async fn panicking_loop_is_reported_and_restarted() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Arc::new(Faulty {
        book: TokenFile::new(directory.path()),
        panics: AtomicBool::new(false),
    });
    let (record, secret) = tokens.book.create(TokenScope::Client, None).unwrap();
    let stored = Arc::clone(&tokens) as Arc<dyn Tokens>;
    let setup = Setup::settings(|settings| {
        settings.access = Access::Tokens {
            operator: Some(Token::new(TOKEN)),
            stored,
        };
    });
    let mut daemon = setup.start().await;
    daemon.client.token = Some(TOKEN.to_owned());
    let client = Client {
        token: Some(secret),
        ..daemon.client.clone()
    };
    let thread = client.post("/v1/threads", json!({})).await.expect(201);
    let thread = format!("/v1/threads/{}", text(&thread["id"]));
    let mut events = client.stream(&format!("{thread}/events?since_seq=0")).await;
    assert_eq!(client.get("/ready").await.status, 200);

    tokens.panics.store(true, Ordering::SeqCst);
    until_ready_is(&client, 503).await;
    assert_eq!(client.get("/ready").await.code(), "not_ready");
    let figures = daemon.client.get("/metrics").await;
    let figures = String::from_utf8_lossy(&figures.body).into_owned();
    assert!(
        figures.contains("windlass_background_panics_total{loop=\"tokens\"} 1"),
        "{figures}"
    );

    tokens.panics.store(false, Ordering::SeqCst);
    assert!(tokens.book.revoke(&record.id).unwrap());
    soon(events.rest()).await;
    until_ready_is(&daemon.client, 200).await;
}
