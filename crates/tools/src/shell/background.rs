//! Commands that continue to run after their call has returned.
//!
//! A background command is confined like any other, and its complete output is written to a file of its session. It ends when it exits, is stopped or
//! exceeds its time limit, when its session is removed, and when the host shuts down or is killed. Its end is recorded next to its output. A command
//! without a recorded end and without a supervisor ended with an earlier process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;
use windlass_process::{Cause, End, ProcessError, Running, SinkFrom};

use super::error::ShellError;
use super::filtered::NetworkFilter;
use super::run::{FullOutput, PreparedCommand, code_and_signal};
use super::{Args, ShellSettings, ShellTool};
use crate::checkpoint::CheckpointedWork;
use crate::outputs::{CommandEnd, CommandRecord, Outputs, StoredOutput, output_path};
use crate::tool::{turn_of, with_remarks};
use windlass_core::lock::lock;

/// The background commands. A cheap handle.
#[derive(Debug, Clone, Default)]
pub(super) struct BackgroundCommands {
    running: Arc<Mutex<HashMap<String, Arc<BackgroundCommand>>>>,
}

/// A background command.
#[derive(Debug)]
pub(super) struct BackgroundCommand {
    pub(super) output: StoredOutput,
    /// Its network, set when it is ready to start. It ends with this value, which is dropped soon after the command has ended.
    filter: OnceLock<NetworkFilter>,
    stop: watch::Sender<bool>,
    /// Closed when it has ended.
    ended: watch::Receiver<()>,
}

/// Shared state of the tools for background commands.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    pub(super) outputs: Outputs,
    pub(super) background: BackgroundCommands,
    /// Maximum size shown of an output.
    pub(super) max_bytes: usize,
}

impl BackgroundCommands {
    /// Finds a running command.
    pub(super) fn find(&self, session_id: SessionId, id: &str) -> Option<Arc<BackgroundCommand>> {
        let found = lock(&self.running).get(id).cloned();
        found.filter(|command| command.output.session_id() == session_id)
    }

    /// Stops the commands of a session, or all commands, and waits until they have ended.
    pub(super) async fn end_all(&self, of: Option<SessionId>) {
        let mut running: Vec<_> = lock(&self.running).values().cloned().collect();
        running.retain(|command| of.is_none_or(|of| command.output.session_id() == of));
        running.iter().for_each(|command| command.stop());
        for command in running {
            command.ended().await;
        }
    }

    /// Reserves a slot for a command, if one is free.
    fn reserve_slot(
        &self,
        settings: &ShellSettings,
        output: StoredOutput,
    ) -> Result<CommandSlot, ShellError> {
        let mut running = lock(&self.running);
        let session_id = output.session_id();
        let sessions = running.values().map(|command| command.output.session_id());
        let count = sessions.filter(|of| *of == session_id).count();
        let too_many = |limit, whose| Err(ShellError::TooMany { limit, whose });
        if count >= settings.max_background_of_session {
            return too_many(settings.max_background_of_session, "this thread");
        }
        if running.len() >= settings.max_background {
            return too_many(settings.max_background, "this host");
        }
        let (stop, stopped) = watch::channel(false);
        let (ending, ended) = watch::channel(());
        let command = Arc::new(BackgroundCommand {
            output,
            filter: OnceLock::new(),
            stop,
            ended,
        });
        running.insert(command.output.id().to_owned(), Arc::clone(&command));
        Ok(CommandSlot {
            background: self.clone(),
            command,
            stopped,
            has_started: false,
            _ending: ending,
        })
    }
}

impl BackgroundCommand {
    /// Returns a remark for the model about its network.
    pub(super) fn network(&self) -> Option<String> {
        self.filter.get().and_then(NetworkFilter::remark)
    }

    pub(super) fn stop(&self) {
        let _ = self.stop.send(true);
    }

    /// Waits until it has ended and its end is recorded.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

/// A command's slot, released when this is dropped.
struct CommandSlot {
    background: BackgroundCommands,
    command: Arc<BackgroundCommand>,
    stopped: watch::Receiver<bool>,
    has_started: bool,
    _ending: watch::Sender<()>,
}

impl Drop for CommandSlot {
    fn drop(&mut self) {
        let output = self.command.output.clone();
        lock(&self.background.running).remove(output.id());
        if self.has_started {
            return;
        }
        let forget = move || {
            let outputs = output.outputs();
            outputs.forget_one(output.session_id(), output.id());
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(forget)),
            Err(_) => forget(),
        }
    }
}

impl ShellTool {
    /// Starts a command and returns while it runs.
    pub(super) async fn run_in_background(
        &self,
        args: Args,
        context: &ToolContext,
    ) -> Result<Value, ShellError> {
        let outputs = self.environments.outputs();
        let outputs = outputs.ok_or(ShellError::NoBackground)?;
        let output = outputs.begin(context.session_id, context.secret_places.clone());
        let slot = self
            .background
            .reserve_slot(&self.settings, output.clone())?;
        let whole = FullOutput {
            from: SinkFrom::Start,
            output: output.clone(),
        };
        let time = self.settings.background_time_for(args.timeout_ms);
        let ready = self.prepare(args, time, Some(whole), context).await?;
        let PreparedCommand {
            program,
            filter,
            output: written,
            ..
        } = ready;
        let confinement = program.sandbox.confinement;
        // It is set only here.
        let _ = slot.command.filter.set(filter);
        let stored = output.clone();
        let record = CommandRecord::new();
        // The task owns the slot: if the caller stops waiting, the created files are removed afterwards.
        let create = tokio::task::spawn_blocking(move || {
            let outputs = stored.outputs();
            let recorded = stored
                .create_file()
                .and_then(|()| outputs.write_record(stored.session_id(), stored.id(), &record));
            (slot, record, recorded)
        });
        let (mut slot, record, recorded) = create.await.map_err(|_| ShellError::Lost)?;
        recorded.map_err(ShellError::io("store the output of the command"))?;
        let (environment, turn) = (context.environment.clone(), turn_of(context));
        let work = CheckpointedWork::begin(&self.environments, environment, turn).await;
        let mut work = work.map_err(ShellError::NoCheckpoint)?;
        work.until(async move { written.closed().await });
        let running = program.start().await?;
        slot.has_started = true;
        let id = output.id().to_owned();
        let network = slot.command.network();
        tokio::spawn(supervise(slot, running, record, work));
        let result = json!({
            "id": id,
            "status": "running",
            "path": output_path(&id),
            "sandbox": confinement.name()
        });
        let remark = format!(
            "it runs in the background, for at most {} seconds; shell_output shows what it prints, shell_stop ends it",
            time.as_secs()
        );
        let remarks = [Some(remark), network];
        Ok(with_remarks(
            result,
            remarks.into_iter().flatten().collect(),
        ))
    }
}

/// Waits for the end of a command and records it. Dropping the future stops the command.
async fn supervise(
    mut slot: CommandSlot,
    mut running: Running,
    mut record: CommandRecord,
    work: CheckpointedWork,
) {
    // A closed channel would mean that no stop can be requested any more, but the slot owns the sender.
    let end = tokio::select! {
        end = running.end() => Some(end),
        _ = slot.stopped.wait_for(|stop| *stop) => None,
    };
    let end = match end {
        Some(end) => end,
        None => {
            running.stop();
            running.end().await
        }
    };
    record.set_end(end_of(end), slot.command.network());
    let output = slot.command.output.clone();
    let recording = tokio::task::spawn_blocking(move || {
        output.end();
        output
            .outputs()
            .write_record(output.session_id(), output.id(), &record)
    });
    // The session may be gone, and its directory with it.
    if let Ok(Err(error)) = recording.await {
        tracing::debug!(%error, "the end of a command was not recorded");
    }
    work.end().await;
    drop(slot);
}

fn end_of(end: Result<End, ProcessError>) -> CommandEnd {
    let Ok(End {
        status: Some(status),
        cause,
        ..
    }) = end
    else {
        return CommandEnd::Unknown;
    };
    match cause {
        Cause::Exited => {
            let (exit_code, signal) = code_and_signal(status);
            CommandEnd::Exited { exit_code, signal }
        }
        Cause::Stopped => CommandEnd::Stopped,
        Cause::TimedOut => CommandEnd::TimedOut,
    }
}
