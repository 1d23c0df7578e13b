//! Shortcoming 25 of the original protocol: disk waits happen on a separate thread.

use serde_json::json;
use windlass_server::Access;

use crate::rpc::socket::RpcSocket;
use crate::support::Setup;

/// The test and the daemon share one OS thread, so blocking on the disk would deadlock.
#[tokio::test(flavor = "current_thread")]
async fn n25_slow_disk_does_not_block_other_connections() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().join("data");
    let setup = Setup {
        data: Some(directory.clone()),
        ..Setup::settings(|settings| settings.access = Access::Open)
    };
    let daemon = setup.start().await;
    let address = daemon.client.address;
    let (mut writer, mut other) = (
        RpcSocket::connect(address).await,
        RpcSocket::connect(address).await,
    );
    let before = other.start("other").await;

    // While another process holds the database lock, no write succeeds.
    let disk = rusqlite::Connection::open(directory.join("windlass.db")).unwrap();
    disk.execute_batch("BEGIN IMMEDIATE").unwrap();
    let params = json!({"agent_id": "a", "intent": "wait for the disk"});
    let start = writer.post("runs.start", params).await;
    for _ in 0..20 {
        let shaken = other
            .ok("server.handshake", json!({"protocol_version": 3}))
            .await;
        assert_eq!(shaken["protocol_version"], 3);
        let listed = other.ok("runs.list", json!({})).await;
        let ids: Vec<_> = listed["runs"].as_array().unwrap().iter().collect();
        assert_eq!((ids.len(), &ids[0]["run_id"]), (1, &json!(before)));
    }
    disk.execute_batch("ROLLBACK").unwrap();
    let started = writer.answer(start).await;
    assert!(started.get("error").is_none(), "{started}");
    assert_eq!(
        other.ok("runs.list", json!({})).await["runs"][0]["agent_id"],
        "a"
    );
}
