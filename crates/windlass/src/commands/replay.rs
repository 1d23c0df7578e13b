//! `windlass replay`: verifies that a recorded thread is reproducible, and compares it with the answers of another model.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use windlass_core::bounds::one_line;
use windlass_protocol::{Call, Mode, ReplayThread, ReplayedThread, StartTurn, Turn, UndoThread};

use crate::cli::{FAILED, GlobalOptions, INTERRUPTED, failed, note, or_current};
use crate::client::calls::{self, by_id};
use crate::client::connect::{ConnectionPurpose, DaemonConnection, DaemonTarget};
use crate::client::ids::short;
use crate::client::thread_session::{ApprovalMode, ThreadSession, TurnViewEnd, find, find_turn};
use crate::commands::run::exit_code;
use crate::data;
use crate::inert_json::write_json;
use crate::terminal::{Colour, Screen, spent};

/// Verifies the decisions of a recorded thread, or repeats turns with another model.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass replay 1f2e3d4c
  windlass replay 1f2e3d4c --what-if openai/gpt-5-mini

Without --what-if, nothing is called, run or recorded: the recorded inputs, answers and results are processed again, and the first record that \
differs is reported. With it, a new thread is created without the last turns, and the other model gets the prompt of the first of them. The new turn \
works in the same directory, so its changes need an approval.")]
pub(crate) struct Replay {
    /// ID of the thread, or the end of it.
    id: String,
    /// Last turn to verify [default: the newest].
    #[arg(long, value_name = "ID", conflicts_with = "what_if")]
    turn: Option<String>,
    /// Model that gets the prompt instead, as `provider/model`.
    #[arg(long, value_name = "MODEL")]
    what_if: Option<String>,
    /// Number of turns that the other model replaces.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "what_if", value_parser = clap::value_parser!(u32).range(1..))]
    back: u32,
    /// Writes the report as JSON, or with --what-if each event.
    #[arg(long)]
    json: bool,
    /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
}

impl Replay {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let purpose = match self.what_if {
            Some(_) => ConnectionPurpose::RunTurns,
            None => ConnectionPurpose::Maintain,
        };
        let data = data::directory(self.data.clone())?;
        let mut target = DaemonTarget::new(data, or_current(None)?, global.config, purpose);
        // An unusable provider is detected before the thread is forked.
        let what_if = self.what_if.clone();
        target.model = what_if.filter(|model| model.contains('/')).or(target.model);
        let daemon = Arc::new(DaemonConnection::open(target).await?);
        let done = match &self.what_if {
            None => self.verify(&daemon).await,
            Some(model) => self.ask(model, &daemon).await,
        };
        daemon.close().await;
        done
    }

    async fn verify(&self, daemon: &DaemonConnection) -> Result<ExitCode> {
        let id = find(daemon, &self.id).await?;
        let mut request = ReplayThread::default();
        if let Some(turn) = &self.turn {
            let advice = "`windlass threads show --json` shows the turns";
            request.turn_id = Some(find_turn(daemon, &id, turn, advice).await?);
        }
        let report = daemon
            .api()
            .replay_thread(Call::new(by_id(&id), request))
            .await?;
        let mut out = io::stdout();
        if self.json {
            write_json(&mut out, &report)?
        } else {
            print_report(&report, &mut out)?
        }
        Ok(match report.divergence {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::from(FAILED),
        })
    }

    async fn ask(&self, model: &str, daemon: &Arc<DaemonConnection>) -> Result<ExitCode> {
        let id = find(daemon, &self.id).await?;
        let api = daemon.api();
        let recorded = calls::newest_turns(&*api, &id, self.back).await?;
        let before = recorded.turns.len().checked_sub(self.back as usize);
        let before = before.and_then(|index| recorded.turns.get(index));
        let before = before.context("the thread does not have that many turns")?;
        let request = UndoThread {
            depth: self.back - 1,
            ..UndoThread::default()
        };
        let made = api.undo_thread(Call::new(by_id(&id), request)).await?;

        let mut session =
            ThreadSession::resume(daemon, &made.thread.id, ApprovalMode::for_terminal(false))
                .await?;
        session.turn_options = StartTurn {
            model: Some(model.to_owned()),
            // An approval of the recorded thread does not apply to another model in the same directory.
            auto_approve: Some(false),
            mode: (made.thread.mode == Mode::Yolo).then_some(Mode::Agent),
            ..StartTurn::default()
        };
        let mut screen = Screen::new(self.json);
        let mut turn = session.start_turn(&made.original_user_text).await?;
        let ended = match turn.watch(&mut screen, None).await {
            Ok(ended) => ended,
            // The turn has started, so this is a failure and not a usage error.
            Err(error) => return Ok(failed(&error, FAILED)),
        };
        let TurnViewEnd::Ended(turn) = ended else {
            note(format!(
                "the turn was left open; resume it with `windlass run --resume {}`",
                made.thread.id
            ));
            return Ok(ExitCode::from(INTERRUPTED));
        };
        if !self.json {
            screen.end_line()?;
            for (what, model, turn) in [
                ("recorded", recorded.thread.model.as_str(), before),
                ("what if", model, &*turn),
            ] {
                screen.notify(Colour::Dim, &line(what, model, turn))?;
            }
            let id = short(&made.thread.id);
            screen.notify(
                Colour::Dim,
                &format!(
                    "thread {id}; compare with: windlass threads show {id}, windlass threads show {}",
                    short(&recorded.thread.id)
                ),
            )?;
        }
        Ok(exit_code(&turn))
    }
}

/// Formats the status and usage of a turn for comparison with another one.
fn line(what: &str, model: &str, turn: &Turn) -> String {
    let status = serde_json::to_value(turn.status).unwrap_or_default();
    let status = status.as_str().unwrap_or_default();
    let spent = spent(turn);
    format!(
        "{what:<9} {} · {status} · {}",
        one_line(model),
        spent.join(" · ")
    )
}

fn print_report(report: &ReplayedThread, out: &mut impl Write) -> Result<()> {
    let (records, turns) = (report.records, report.turns);
    writeln!(
        out,
        "{records} records of {turns} turns are reproduced as recorded"
    )?;
    if !report.reconfigured.is_empty() {
        let many = report.reconfigured.len();
        writeln!(
            out,
            "{many} of them would have another prompt, model or tools today"
        )?;
    }
    if let Some(divergence) = &report.divergence {
        let name = |name: &Option<String>| match name {
            Some(name) => one_line(name).into_owned(),
            None => "nothing".to_owned(),
        };
        writeln!(
            out,
            "record {}: {} was recorded, but the replay yields {} ({})",
            divergence.index,
            name(&divergence.recorded),
            name(&divergence.came_out),
            one_line(&divergence.detail)
        )?;
    }
    Ok(())
}
