//! CPU of a turn.

use std::time::Duration;

use windlass_testkit::Wire;

use super::server::{AnswerScript, ModelServer};
use super::sessions::{Sessions, turn};
use super::{Result, bare, name};
use crate::machine;
use crate::report::{Bound, Report};

/// The two sides alternate, so that other load on the machine affects both.
const ROUNDS: usize = 8;
const SESSIONS: usize = 10;
/// Turns of one session, with requests that grow like those of a conversation.
const TURNS: usize = 10;

pub async fn measure(report: &mut Report) -> Result<()> {
    for wire in Wire::ALL {
        for script in [
            AnswerScript::Plain,
            AnswerScript::FiveTogether,
            AnswerScript::FiveInTurn,
        ] {
            compare(report, wire, script).await?;
        }
    }
    Ok(())
}

async fn compare(report: &mut Report, wire: Wire, script: AnswerScript) -> Result<()> {
    let label = |what: &str| format!("{}, {}: {what}", name(wire), script.name());
    report.progress(&label("turns"));
    let requests = bare::recorded(wire, script, TURNS).await?;
    let server = ModelServer::start(wire, script).await?;
    let client = bare::client()?;
    let (mut ours, mut bare, mut bytes) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for round in 0..=ROUNDS {
        let sessions = Sessions::start(wire, &server.url, SESSIONS).await?;
        let before = machine::cpu_time();
        for id in &sessions.ids {
            for _ in 0..TURNS {
                turn(&sessions.runtime, *id).await?;
            }
        }
        let with_windlass = machine::cpu_time();
        for _ in 0..SESSIONS {
            for asked in &requests {
                bare::ask(&client, &server.url, asked).await?;
            }
        }
        let with_bare_loop = machine::cpu_time();
        for _ in 0..SESSIONS {
            for asked in &requests {
                bare::post(&client, &server.url, asked.to_string().into(), |_| ()).await?;
            }
        }
        // The first round warms up all.
        if round > 0 {
            ours += with_windlass - before;
            bare += with_bare_loop - with_windlass;
            bytes += machine::cpu_time() - with_bare_loop;
        }
    }
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / (ROUNDS * SESSIONS * TURNS) as f64;
    report.figure(&label("CPU per turn"), each(ours), "us", Bound::None);
    report.figure(&label("CPU, bare loop"), each(bare), "us", Bound::None);
    let unread = label("CPU, bare loop, answer not read");
    report.figure(&unread, each(bytes), "us", Bound::None);
    report.figure(
        &label("CPU / bare loop"),
        each(ours) / each(bare),
        "ratio",
        Bound::AtMost(2.0),
    );
    Ok(())
}
