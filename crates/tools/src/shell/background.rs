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
use super::filtered::Filter;
use super::run::{Ready, Whole, code_and_signal};
use super::{Args, Shell, ShellSettings};
use crate::checkpoint::ChangingFiles;
use crate::lock::lock;
use crate::outputs::{CommandEnd, CommandRecord, KeptOutput, Outputs, shown};
use crate::tool::{turn_of, with_remarks};

/// The background commands. A cheap handle.
#[derive(Debug, Clone, Default)]
pub(super) struct Background {
    running: Arc<Mutex<HashMap<String, Arc<Behind>>>>,
}

/// A background command.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) output: KeptOutput,
    /// Its network, set when it is ready to start. It ends with this value, which is dropped soon after the command has ended.
    filter: OnceLock<Filter>,
    stop: watch::Sender<bool>,
    /// Closed when it has ended.
    ended: watch::Receiver<()>,
}

/// Shared state of the tools for background commands.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    pub(super) outputs: Outputs,
    pub(super) background: Background,
    /// Maximum size shown of an output.
    pub(super) max_bytes: usize,
}

impl Background {
    /// Finds a running command.
    pub(super) fn find(&self, session_id: SessionId, id: &str) -> Option<Arc<Behind>> {
        let found = lock(&self.running).get(id).cloned();
        found.filter(|behind| behind.output.session_id() == session_id)
    }

    /// Stops the commands of a session, or all commands, and waits until they have ended.
    pub(super) async fn end_all(&self, of: Option<SessionId>) {
        let running: Vec<_> = lock(&self.running).values().cloned().collect();
        let theirs = |it: &Arc<Behind>| of.is_none_or(|of| it.output.session_id() == of);
        let running: Vec<_> = running.into_iter().filter(theirs).collect();
        running.iter().for_each(|behind| behind.stop());
        for behind in running {
            behind.ended().await;
        }
    }

    /// Reserves a slot for a command, if one is free.
    fn enter(&self, settings: &ShellSettings, output: KeptOutput) -> Result<Place, ShellError> {
        let mut running = lock(&self.running);
        let session_id = output.session_id();
        let theirs = running.values().map(|behind| behind.output.session_id());
        let count = theirs.filter(|of| *of == session_id).count();
        let too_many = |limit, whose| Err(ShellError::TooMany { limit, whose });
        if count >= settings.max_background_of_session {
            return too_many(settings.max_background_of_session, "this thread");
        }
        if running.len() >= settings.max_background {
            return too_many(settings.max_background, "this host");
        }
        let (stop, stopped) = watch::channel(false);
        let (ending, ended) = watch::channel(());
        let behind = Arc::new(Behind {
            output,
            filter: OnceLock::new(),
            stop,
            ended,
        });
        running.insert(behind.output.id().to_owned(), Arc::clone(&behind));
        Ok(Place {
            background: self.clone(),
            behind,
            stopped,
            has_started: false,
            _ending: ending,
        })
    }
}

impl Behind {
    /// Returns a remark for the model about its network.
    pub(super) fn network(&self) -> Option<String> {
        self.filter.get().and_then(Filter::remark)
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
struct Place {
    background: Background,
    behind: Arc<Behind>,
    stopped: watch::Receiver<bool>,
    has_started: bool,
    _ending: watch::Sender<()>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let output = self.behind.output.clone();
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

impl Shell {
    /// Starts a command and returns while it runs.
    pub(super) async fn run_behind(
        &self,
        args: Args,
        context: &ToolContext,
    ) -> Result<Value, ShellError> {
        let outputs = self.environments.outputs();
        let outputs = outputs.ok_or(ShellError::NoBackground)?;
        let output = outputs.begin(context.session_id, context.secret_places.clone());
        let place = self.background.enter(&self.settings, output.clone())?;
        let whole = Whole {
            from: SinkFrom::Start,
            output: output.clone(),
        };
        let time = self.settings.background_time_for(args.timeout_ms);
        let ready = self.prepare(args, time, Some(whole), context).await?;
        let Ready {
            program,
            filter,
            output: written,
            ..
        } = ready;
        let confinement = program.sandbox.confinement;
        // This is the only place that sets it.
        let _ = place.behind.filter.set(filter);
        let made = output.clone();
        let record = CommandRecord::begun();
        // The task owns the slot: if the caller stops waiting, the created files are removed afterwards.
        let making = tokio::task::spawn_blocking(move || {
            let outputs = made.outputs();
            let recorded = made
                .make()
                .and_then(|()| outputs.write_record(made.session_id(), made.id(), &record));
            (place, record, recorded)
        });
        let (mut place, record, made) = making.await.map_err(|_| ShellError::Lost)?;
        made.map_err(ShellError::io("keep the output of the command"))?;
        let (environment, turn) = (context.environment.clone(), turn_of(context));
        let changing = ChangingFiles::begin(&self.environments, environment, turn).await;
        let mut changing = changing.map_err(ShellError::NotKept)?;
        changing.until(async move { written.closed().await });
        let running = program.start().await?;
        place.has_started = true;
        let id = output.id().to_owned();
        let network = place.behind.network();
        tokio::spawn(look_after(place, running, record, changing));
        let begun = json!({
            "id": id,
            "status": "running",
            "path": shown(&id),
            "sandbox": confinement.name()
        });
        let remark = format!(
            "it runs in the background, for at most {} seconds; shell_output shows what it prints, shell_stop ends it",
            time.as_secs()
        );
        let remarks = [Some(remark), network];
        Ok(with_remarks(begun, remarks.into_iter().flatten().collect()))
    }
}

/// Waits for the end of a command and records it. Dropping the future stops the command.
async fn look_after(
    mut place: Place,
    mut running: Running,
    mut record: CommandRecord,
    changing: ChangingFiles,
) {
    // A closed channel would mean that no stop can be requested any more, but the slot owns the sender.
    let is_stopped = tokio::select! {
        end = running.end() => Err(end),
        _ = place.stopped.wait_for(|stop| *stop) => Ok(()),
    };
    let end = match is_stopped {
        Err(end) => end,
        Ok(()) => {
            running.stop();
            running.end().await
        }
    };
    record.ended(end_of(end), place.behind.network());
    let output = place.behind.output.clone();
    let recording = tokio::task::spawn_blocking(move || {
        output.end();
        output
            .outputs()
            .write_record(output.session_id(), output.id(), &record)
    });
    // The session may be gone, and its directory with it.
    if let Ok(Err(error)) = recording.await {
        tracing::debug!(%error, "the end of a command is not on record");
    }
    changing.end().await;
    drop(place);
}

fn end_of(end: Result<End, ProcessError>) -> CommandEnd {
    match end {
        Ok(End {
            status: Some(status),
            cause: Cause::Exited,
            ..
        }) => {
            let (exit_code, signal) = code_and_signal(status);
            CommandEnd::Exited { exit_code, signal }
        }
        Ok(End {
            status: Some(_),
            cause: Cause::Stopped,
            ..
        }) => CommandEnd::Stopped,
        Ok(End {
            status: Some(_),
            cause: Cause::TimedOut,
            ..
        }) => CommandEnd::TimedOut,
        Ok(End { status: None, .. }) | Err(_) => CommandEnd::Unknown,
    }
}
