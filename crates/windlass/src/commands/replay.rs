//! `windlass replay`: verifies that a recorded thread is reproducible, and compares it with the answers of another model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use windlass_core::bounds::one_line;
use windlass_protocol::{Call, Mode, ReplayThread, ReplayedThread, StartTurn, Turn, UndoThread};

use crate::calls::{self, by_id};
use crate::cli::{FAILED, INTERRUPTED, failed, note, or_current};
use crate::commands::run::exit_code;
use crate::connect::{DaemonConnection, DaemonTarget, Purpose, explained};
use crate::data;
use crate::ids::short;
use crate::inert_json::json_line;
use crate::terminal::{Colour, Screen, TypedAhead, spent};
use crate::thread_session::{Approvals, Ended, ThreadSession, find, find_turn};

/// Decides again what is recorded of a thread, or asks another model.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass replay 1f2e3d4c
  windlass replay 1f2e3d4c --what-if openai/gpt-5-mini

Without --what-if nothing is called, run or recorded: from what was said, answered and returned, everything is decided once more, and the first \
record that comes out differently is told. With it, a new thread is made without the last turns, and the other model is told what the first of them \
was told. It works in the same directory, so somebody is asked before it changes something.")]
pub(crate) struct Replay {
    /// The thread; the end of its id will do.
    id: String,
    /// The last turn that is decided again [default: the last].
    #[arg(long, value_name = "ID", conflicts_with = "what_if")]
    turn: Option<String>,
    /// Another model that gets the last words, as `provider/model`.
    #[arg(long, value_name = "MODEL")]
    what_if: Option<String>,
    /// How many turns back the other model begins.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "what_if", value_parser = clap::value_parser!(u32).range(1..))]
    back: u32,
    /// Writes JSON: the report, or with --what-if every event.
    #[arg(long)]
    json: bool,
    /// The data directory [default: the user's own].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
}

impl Replay {
    pub(crate) async fn run(self, config: Option<&Path>) -> Result<ExitCode> {
        let target = DaemonTarget {
            data: data::directory(self.data.clone())?,
            config: config.map(Path::to_owned),
            // An unusable provider is detected before the thread is forked.
            model: self
                .what_if
                .clone()
                .filter(|model| model.contains('/'))
                .or_else(|| {
                    let usual = std::env::var("WINDLASS_MODEL").ok();
                    usual.filter(|model| !model.trim().is_empty())
                }),
            workspace: or_current(None)?,
            purpose: match self.what_if {
                Some(_) => Purpose::Work,
                None => Purpose::Look,
            },
            backend: None,
        };
        let daemon = Arc::new(DaemonConnection::open(target).await?);
        let done = match &self.what_if {
            None => self.decide_again(&daemon).await,
            Some(model) => self.ask(model, &daemon).await,
        };
        daemon.leave().await;
        done
    }

    async fn decide_again(&self, daemon: &DaemonConnection) -> Result<ExitCode> {
        let id = find(daemon, &self.id).await?;
        let mut request = ReplayThread::default();
        if let Some(turn) = &self.turn {
            let advice = "`windlass threads show` shows them with --json";
            request.turn_id = Some(find_turn(daemon, &id, turn, advice).await?);
        }
        let report = daemon
            .api()
            .replay_thread(Call::new(by_id(&id), request))
            .await;
        let report = report.map_err(explained)?;
        let mut out = io::stdout();
        if self.json {
            writeln!(out, "{}", json_line(&report)?)?
        } else {
            tell(&report, &mut out)?
        }
        Ok(match report.divergence {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::from(FAILED),
        })
    }

    async fn ask(&self, model: &str, daemon: &Arc<DaemonConnection>) -> Result<ExitCode> {
        let id = find(daemon, &self.id).await?;
        let api = daemon.api();
        let recorded = calls::newest_turns(&*api, &id, self.back).await;
        let recorded = recorded.map_err(explained)?;
        let before = recorded.turns.len().checked_sub(self.back as usize);
        let before = before.and_then(|place| recorded.turns.get(place));
        let before = before.context("the thread does not have so many turns")?;
        let request = UndoThread {
            depth: self.back - 1,
            ..UndoThread::default()
        };
        let made = api.undo_thread(Call::new(by_id(&id), request)).await;
        let made = made.map_err(explained)?;

        let mut session =
            ThreadSession::resume(daemon, &made.thread.id, Approvals::here(false)).await?;
        session.of_turns = StartTurn {
            model: Some(model.to_owned()),
            // An approval of the recorded thread does not apply to another model in the same directory.
            auto_approve: Some(false),
            mode: (made.thread.mode == Mode::Yolo).then_some(Mode::Agent),
            ..StartTurn::default()
        };
        let mut screen = Screen::new(self.json);
        let turn = session.say(&made.original_user_text).await?;
        let ended = match turn.watched(&mut screen, TypedAhead::Lines).await {
            Ok(ended) => ended,
            // The turn has started, so this is a failure and not a usage error.
            Err(error) => return Ok(failed(&error, FAILED)),
        };
        let Ended::Turn(turn) = ended else {
            note(&format!(
                "the turn was left open; `windlass run --resume {}` goes on with it",
                made.thread.id
            ));
            return Ok(ExitCode::from(INTERRUPTED));
        };
        if !self.json {
            screen.rest()?;
            for (what, model, turn) in [
                ("recorded", recorded.thread.model.as_str(), before),
                ("what if", model, &*turn),
            ] {
                screen.tell(Colour::Dim, &line(what, model, turn))?;
            }
            let id = short(&made.thread.id);
            screen.tell(
                Colour::Dim,
                &format!(
                    "thread {id}; what it did: windlass threads show {id}, what was done then: windlass threads show {}",
                    short(&recorded.thread.id)
                ),
            )?;
        }
        Ok(exit_code(&turn))
    }
}

/// Formats the status and usage of a turn for comparison with another one.
fn line(what: &str, model: &str, turn: &Turn) -> String {
    let how = serde_json::to_value(turn.status).unwrap_or_default();
    let how = how.as_str().unwrap_or_default().to_owned();
    let spent = spent(turn);
    format!(
        "{what:<9} {} · {how} · {}",
        one_line(model),
        spent.join(" · ")
    )
}

fn tell(report: &ReplayedThread, out: &mut impl Write) -> Result<()> {
    let (records, turns) = (report.records, report.turns);
    writeln!(
        out,
        "{records} records of {turns} turns come out as they were recorded"
    )?;
    if !report.reconfigured.is_empty() {
        let many = report.reconfigured.len();
        writeln!(
            out,
            "{many} of them would work with another prompt, model or tools today"
        )?;
    }
    if let Some(divergence) = &report.divergence {
        let name = |name: &Option<String>| match name {
            Some(name) => one_line(name).into_owned(),
            None => "nothing".to_owned(),
        };
        writeln!(
            out,
            "record {}: {} was recorded, {} comes out ({})",
            divergence.index,
            name(&divergence.recorded),
            name(&divergence.came_out),
            one_line(&divergence.detail)
        )?;
    }
    Ok(())
}
