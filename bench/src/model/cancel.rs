//! Time until the provider notices that a turn was cancelled during an answer.

use std::time::{Duration, Instant};

use windlass_testkit::Wire;

use super::server::{AnswerScript, ModelServer};
use super::sessions::{PROMPT, Sessions};
use super::{Result, name};
use crate::report::{Bound, Report};

const CANCELS: usize = 50;

pub async fn measure(report: &mut Report) -> Result<()> {
    for wire in Wire::ALL {
        report.progress(&format!("{}: {CANCELS} cancelled turns", name(wire)));
        let mut server = ModelServer::start(wire, AnswerScript::Held).await?;
        let sessions = Sessions::start(wire, &server.url, CANCELS).await?;
        let mut worst = Duration::ZERO;
        for id in &sessions.ids {
            let turn = sessions.runtime.submit(*id, PROMPT).await?;
            server.line().await?;
            let cancelled = Instant::now();
            sessions.runtime.cancel_turn(*id).await?;
            server.line().await?;
            worst = worst.max(cancelled.elapsed());
            turn.wait().await?;
        }
        report.figure(
            &format!("{}: cancel until the connection closes", name(wire)),
            worst.as_secs_f64() * 1e3,
            "ms (worst)",
            Bound::AtMost(100.0),
        );
    }
    Ok(())
}
