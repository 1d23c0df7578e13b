//! One call of the shell, from its arguments to its result.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::named_secrets::NamedSecrets;
use windlass_core::traits::ToolContext;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_process::{
    Cause, Confinement, End, Excerpt, NO_MORE_SHOWN, Output, Program, SinkFrom, closed_by_landlock,
};

use super::error::ShellError;
use super::filtered::NetworkFilter;
use super::safe_cuts;
use super::{Args, NAME, ShellSettings, ShellTool};
use crate::checkpoint::CheckpointedWork;
use crate::environments::Environments;
use crate::outputs::{StoredOutput, StoredOutputSink};
use crate::tool::{turn_of, with_remarks};

/// How long output is collected before it is shown.
const SHOW_PAUSE: Duration = Duration::from_millis(50);

/// A command that is ready to start, and its confinement.
pub(super) struct PreparedCommand {
    pub(super) program: Program,
    /// Its network, held while it runs.
    pub(super) filter: NetworkFilter,
    pub(super) output: Arc<Output>,
    /// Directories in which Landlock allows no new entries, because something hidden is below them.
    closed_directories: Vec<PathBuf>,
}

/// Stored output of a command, in addition to the shown part.
#[derive(Clone)]
pub(super) struct FullOutput {
    pub(super) from: SinkFrom,
    pub(super) output: StoredOutput,
}

impl ShellTool {
    pub(super) async fn run(&self, args: Args, context: &ToolContext) -> Result<Value, ShellError> {
        let whole = self.environments.outputs().map(|outputs| FullOutput {
            from: SinkFrom::Cut,
            output: outputs.begin(context.session_id, context.secret_places.clone()),
        });
        let time = self.settings.time_for(args.timeout_ms);
        let ready = self.prepare(args, time, whole.clone(), context).await?;
        let PreparedCommand {
            program,
            filter,
            output,
            closed_directories,
        } = ready;
        let confinement = program.sandbox.confinement;
        let (environment, turn) = (context.environment.clone(), turn_of(context));
        let work = CheckpointedWork::begin(&self.environments, environment, turn).await;
        let mut work = work.map_err(ShellError::NoCheckpoint)?;
        // The output is closed when all processes of the command have ended.
        let written = Arc::clone(&output);
        work.until(async move { written.closed().await });
        // Output is shown from the start; an error is reported with the end.
        let run = async {
            let mut running = program.start().await?;
            running.end().await
        };
        let (end, ()) = tokio::join!(run, show(&output, context));
        work.end().await;
        let whole = whole.and_then(|whole| whole.output.remark());
        let mut excerpt = output.excerpt();
        if let Some(places) = context.secret_places.as_deref() {
            safe_cuts::cut_at_gap(places, &mut excerpt);
        }
        let result = report(end?, &excerpt, whole, confinement, time)?;
        Ok(with_remark(
            with_closed_directories(result, &closed_directories),
            filter.remark(),
        ))
    }

    /// Prepares a command.
    pub(super) async fn prepare(
        &self,
        args: Args,
        time: Duration,
        whole: Option<FullOutput>,
        context: &ToolContext,
    ) -> Result<PreparedCommand, ShellError> {
        let (environments, settings) = (self.environments.clone(), Arc::clone(&self.settings));
        let turn = context.environment.clone();
        let ready = tokio::task::spawn_blocking(move || {
            prepare(&environments, &settings, turn.as_ref(), &args, time, whole)
        });
        let mut ready = ready.await.map_err(|_| ShellError::Lost)??;
        ready.filter = self.filter(&mut ready.program, context)?;
        let secrets = context.secrets.iter().flat_map(NamedSecrets::variables);
        let secrets = secrets.map(|(name, value)| (name.into(), value.into()));
        ready.program.variables.extend(secrets);
        Ok(ready)
    }
}

/// Shows output as it arrives. At the end of the shown part, the beginning of a secret is omitted.
async fn show(output: &Output, context: &ToolContext) {
    let places = context.secret_places.as_deref();
    let mut held = String::new();
    while let Some(text) = output.fresh().await {
        held.push_str(&text);
        let (before, note) = match held.strip_suffix(NO_MORE_SHOWN) {
            Some(before) => (before, NO_MORE_SHOWN),
            None => (held.as_str(), ""),
        };
        let shown = places.map_or(before.len(), |places| places.settled(before));
        let rest = if note.is_empty() {
            before[shown..].to_owned()
        } else {
            String::new()
        };
        let text = format!("{}{note}", &before[..shown]);
        held = rest;
        if !text.is_empty() {
            context.emit_tool_output(NAME, &text, "stdout").await;
        }
        tokio::select! {
            () = tokio::time::sleep(SHOW_PAUSE) => {}
            () = output.closed() => {}
        }
    }
    if !held.is_empty() {
        context.emit_tool_output(NAME, &held, "stdout").await;
    }
}

fn prepare(
    environments: &Environments,
    settings: &ShellSettings,
    turn: Option<&TurnEnvironment>,
    args: &Args,
    time: Duration,
    whole: Option<FullOutput>,
) -> Result<PreparedCommand, ShellError> {
    if args.command.trim().is_empty() {
        return Err(ShellError::Blank);
    }
    if args.command.contains('\0') {
        return Err(ShellError::Nul);
    }
    let sandbox = settings.sandbox(environments, turn, args.cwd.as_deref())?;
    let closed_directories = match sandbox.confinement {
        Confinement::Landlock => closed_by_landlock(&sandbox.bounds),
        Confinement::Bubblewrap | Confinement::Unconfined => Vec::new(),
    };
    let (retained, streamed) = (settings.max_output_bytes, settings.max_streamed_bytes);
    let output = Output::new(retained, streamed);
    let output = Arc::new(match whole {
        Some(whole) => output.with_sink(whole.from, StoredOutputSink(whole.output)),
        None => output,
    });
    let mut program = sandbox.program(&settings.shell, Arc::clone(&output));
    program.arguments = vec!["-c".into(), (&args.command).into()];
    program.variables = settings.variables_in(&program.sandbox.bounds);
    program.time = Some(time);
    program.shutdown = settings.shutdown();
    Ok(PreparedCommand {
        program,
        filter: NetworkFilter::default(),
        output,
        closed_directories,
    })
}

fn report(
    end: End,
    output: &Excerpt,
    whole: Option<String>,
    confinement: Confinement,
    limit: Duration,
) -> Result<Value, ShellError> {
    let (mut text, remark) = output.text();
    let is_fine = end.status.is_some() && end.cause == Cause::Exited;
    if let (Some(whole), false) = (&whole, is_fine) {
        text.push_str(&format!("\n[{whole}]"));
    }
    let Some(status) = end.status else {
        return Err(ShellError::Immortal { output: text });
    };
    match end.cause {
        Cause::Exited => {}
        Cause::TimedOut => {
            return Err(ShellError::TimedOut {
                limit_ms: limit.as_millis(),
                output: text,
            });
        }
        Cause::Stopped => return Err(ShellError::Lost),
    }
    let (exit_code, signal) = code_and_signal(status);
    let mut result = json!({
        "exit_code": exit_code,
        "output": text,
        "duration_ms": u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX),
        "sandbox": confinement.name()
    });
    if let Some(signal) = signal {
        result["signal"] = signal.into();
    }
    Ok(with_remarks(
        result,
        remark.into_iter().chain(whole).collect(),
    ))
}

/// Adds a remark to a failed command's result about directories in which Landlock forbids changes that users expect to work.
fn with_closed_directories(result: Value, closed_directories: &[PathBuf]) -> Value {
    let output = result["output"].as_str().unwrap_or_default();
    let is_fine = result["exit_code"] == 0 && !output.contains("Permission denied");
    let (Some(first), false) = (closed_directories.first(), is_fine) else {
        return result;
    };
    let others = match closed_directories.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} directories below"),
    };
    let closed_directories = format!(
        "no entries can be created, renamed or removed directly in {}{others}, because files of the host are below and this \
         machine's sandbox, landlock, can protect them in no other way; work in another directory. The operator can \
         move the host's files elsewhere (`--data`, `--config`), choose another workspace, or install bubblewrap",
        first.display()
    );
    with_remark(result, Some(closed_directories))
}

/// Appends a remark to a result.
fn with_remark(result: Value, remark: Option<String>) -> Value {
    let remarks = [result["remark"].as_str().map(str::to_owned), remark];
    with_remarks(result, remarks.into_iter().flatten().collect())
}

/// Returns the exit code and signal. A command that a signal ended has the exit code that shells report for it.
pub(crate) fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    use std::os::unix::process::ExitStatusExt;

    let signal = status.signal();
    let code = status.code().or(signal.map(|signal| 128 + signal));
    (code, signal)
}
