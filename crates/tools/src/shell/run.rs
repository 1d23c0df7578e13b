//! One call of the shell, from its arguments to its result.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::traits::ToolContext;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_process::{Bounds, Cause, Confinement, End, Output, Program, closed_by_landlock};

use super::error::ShellError;
use super::{Args, NAME, Shell, ShellSettings};
use crate::environments::{Environments, Unconfined};
use crate::tool::with_remarks;
use crate::workspace::ResolvedWorkspace;

/// How long output is gathered before more of it is shown.
const SHOW_PAUSE: Duration = Duration::from_millis(50);

/// A command that is ready to start, and how it is confined.
struct Ready {
    program: Program,
    output: Arc<Output>,
    time: Duration,
    /// Where landlock lets nothing be made, because something hidden lies below.
    closed: Vec<PathBuf>,
}

impl Shell {
    pub(super) async fn run(&self, args: Args, context: &ToolContext) -> Result<Value, ShellError> {
        let (environments, settings) = (self.environments.clone(), Arc::clone(&self.settings));
        let turn = context.environment.clone();
        let ready = tokio::task::spawn_blocking(move || {
            prepare(&environments, &settings, turn.as_ref(), &args)
        });
        let ready = ready.await.map_err(|_| ShellError::Lost)??;
        let Ready {
            program,
            output,
            time,
            closed,
        } = ready;
        let confinement = program.confinement;
        // Shown from the start on: what goes wrong then is told with the end.
        let run = async {
            let mut running = program.start().await?;
            running.end().await
        };
        let (end, ()) = tokio::join!(run, show(&output, context));
        let result = report(end?, &output, confinement, time)?;
        Ok(with_closed(result, &closed))
    }
}

/// Shows output while it comes.
async fn show(output: &Output, context: &ToolContext) {
    while let Some(text) = output.fresh().await {
        context.emit_tool_output(NAME, &text, "stdout").await;
        tokio::select! {
            () = tokio::time::sleep(SHOW_PAUSE) => {}
            () = output.closed() => {}
        }
    }
}

fn prepare(
    environments: &Environments,
    settings: &ShellSettings,
    turn: Option<&TurnEnvironment>,
    args: &Args,
) -> Result<Ready, ShellError> {
    if args.command.trim().is_empty() {
        return Err(ShellError::Blank);
    }
    if args.command.contains('\0') {
        return Err(ShellError::Nul);
    }
    let at = environments.resolve(turn)?;
    let confinement = choose(settings, &at)?;
    refuse_link_to_hidden(&at, confinement)?;
    let cwd = at.canonical(&at.inside(args.cwd.as_deref().unwrap_or("."))?)?;
    at.open_directory(&cwd)?;
    let scratch = confinement.needs_scratch().then(|| {
        let mut named = tempfile::Builder::new();
        let made = named.prefix("windlass-").tempdir_in(&settings.scratch);
        made.map_err(ShellError::io("make a temporary directory"))
    });
    let scratch = scratch.transpose()?;
    let bounds = Bounds {
        root: at.root_path().to_owned(),
        cwd: at.root_path().join(cwd),
        is_writable: at.policy().write,
        also_writable: Vec::new(),
        hidden: Arc::clone(at.hidden()),
        held: roots_inside(environments, at.root_path()),
        network: at.policy().network,
        scratch: scratch.as_ref().map(|made| made.path().to_owned()),
    };
    let root = at.root().as_fd().try_clone_to_owned();
    let root = root.map_err(ShellError::io("open the environment's root"))?;
    let closed = match confinement {
        Confinement::Landlock => closed_by_landlock(&bounds),
        Confinement::Bubblewrap | Confinement::Unconfined => Vec::new(),
    };
    let (kept, shown) = (settings.max_output_bytes, settings.max_streamed_bytes);
    let output = Arc::new(Output::new(kept, shown));
    let time = settings.time_for(args.timeout_ms);
    let variables = variables(settings, &bounds);
    let shell = &settings.shell;
    let mut program = Program::new(shell, confinement, bounds, root, Arc::clone(&output));
    program.arguments = vec!["-c".into(), (&args.command).into()];
    program.variables = variables;
    program.limits = settings.limits();
    program.time = Some(time);
    program.ladder = settings.ladder();
    program.owner.clone_from(&settings.owner);
    program.records.clone_from(&settings.records);
    program.scratch = scratch;
    Ok(Ready {
        program,
        output,
        time,
        closed,
    })
}

/// Chooses how the command is confined, if it may run at all.
fn choose(settings: &ShellSettings, at: &ResolvedWorkspace) -> Result<Confinement, ShellError> {
    let (id, policy) = (at.id().to_owned(), at.policy());
    if !policy.shell {
        return Err(ShellError::NotAllowed { id });
    }
    let found = settings.ways.iter().find(|way| way.works_here());
    match (found, policy.unconfined) {
        (Some(way), _) => Ok(*way),
        (None, Unconfined::Allow) => Ok(Confinement::Unconfined),
        (None, Unconfined::Refuse) => Err(ShellError::NoSandbox { id }),
    }
}

/// Returns the roots of other environments inside of a directory. A command that replaced one by a link, just while a command
/// starts there, would decide what that one gets to see.
fn roots_inside(environments: &Environments, directory: &Path) -> Vec<PathBuf> {
    let all = environments.list().into_iter();
    let roots = all.map(|environment| environment.root().to_owned());
    let roots = roots.filter(|root| root.starts_with(directory) && root != directory);
    let roots = roots.filter(|root| root.canonicalize().is_ok_and(|real| real == *root));
    roots.collect()
}

/// A sandbox covers files and directories. A link by which the host finds its own data cannot be covered, so a command that
/// could replace it is not run: it would decide what the host finds at its next start.
fn refuse_link_to_hidden(
    at: &ResolvedWorkspace,
    confinement: Confinement,
) -> Result<(), ShellError> {
    if !at.policy().write || confinement == Confinement::Unconfined {
        return Ok(());
    }
    match at.hidden().link_inside(at.root_path()) {
        Some(link) => Err(ShellError::LinkToHidden {
            id: at.id().to_owned(),
            link: link.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Returns the command's variables; none of ours are among them.
fn variables(settings: &ShellSettings, bounds: &Bounds) -> BTreeMap<OsString, OsString> {
    let scratch = bounds.scratch.as_deref().unwrap_or(Path::new("/tmp"));
    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::from([
        ("HOME".into(), scratch.into()),
        ("TERM".into(), "dumb".into()),
    ]);
    let set = settings.variables.iter();
    variables.extend(set.map(|(name, value)| (name.into(), value.into())));
    variables.insert("TMPDIR".into(), scratch.into());
    variables
}

fn report(
    end: End,
    output: &Output,
    confinement: Confinement,
    limit: Duration,
) -> Result<Value, ShellError> {
    let (text, remark) = output.text();
    let Some(status) = end.status else {
        return Err(ShellError::Immortal { output: text });
    };
    match end.cause {
        Cause::Itself => {}
        Cause::TimeOver => {
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
    Ok(with_remarks(result, remark.into_iter().collect()))
}

/// Says of a command that failed what landlock forbids beyond what anybody would expect.
fn with_closed(result: Value, closed: &[PathBuf]) -> Value {
    let output = result["output"].as_str().unwrap_or_default();
    let is_fine = result["exit_code"] == 0 && !output.contains("Permission denied");
    let (Some(first), false) = (closed.first(), is_fine) else {
        return result;
    };
    let others = match closed.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} directories below"),
    };
    let closed = format!(
        "nothing can be made, renamed or removed directly in {}{others}, because files of the host lie further down and this \
         machine's sandbox, landlock, can keep them apart in no other way; work in another directory. Who runs the host can \
         keep its own files elsewhere (`--data`, `--config`), choose another workspace, or install bubblewrap",
        first.display()
    );
    let remarks = [result["remark"].as_str().map(str::to_owned), Some(closed)];
    with_remarks(result, remarks.into_iter().flatten().collect())
}

/// A command that a signal ended has the exit code that shells give it.
fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    use std::os::unix::process::ExitStatusExt;

    let signal = status.signal();
    let code = status.code().or(signal.map(|signal| 128 + signal));
    (code, signal)
}
