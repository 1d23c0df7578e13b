//! Many clients at once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Result;
use super::client::RunsClient;

/// Number of clients that fill the log.
const AT_ONCE: usize = 200;

/// Makes clients start and complete runs of an agent.
pub async fn pairs(address: SocketAddr, agent: &'static str, count: usize) -> Result<()> {
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let mut socket = RunsClient::connect(address).await?;
        clients.spawn(async move {
            for _ in 0..count / AT_ONCE {
                socket.pair(agent).await?;
            }
            Ok::<_, super::Error>(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(())
}

/// Counts start and complete pairs on several connections for a while.
pub async fn rate(address: SocketAddr, connections: usize, round: Duration) -> Result<f64> {
    let mut sockets = Vec::new();
    for _ in 0..connections {
        sockets.push(RunsClient::connect(address).await?);
    }
    let begin = Instant::now();
    let mut clients = JoinSet::new();
    for mut socket in sockets {
        clients.spawn(async move {
            let mut pairs = 0_u32;
            while begin.elapsed() < round {
                socket.pair("bench").await?;
                pairs += 1;
            }
            Ok::<_, super::Error>(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(done) = clients.join_next().await {
        pairs += done??;
    }
    Ok(f64::from(pairs) / begin.elapsed().as_secs_f64())
}
