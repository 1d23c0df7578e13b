//! The thread that starts a program and then waits for it.

use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::confine::{Confinement, Domain, Prepared};
use crate::error::ProcessError;
use crate::orphans::{self, ChildRegistration, OrphanRisk};
use crate::parent_death_guard::ParentDeathGuard;
use crate::program::Program;
use crate::sandbox_init::SandboxInit;
use crate::signals;
use crate::supervise::{SupervisorEvent, spawn_thread};

/// The program's ends of the pipes.
pub(crate) struct Pipes {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: PipeWriter,
    pub(crate) stderr: PipeWriter,
}

pub(crate) struct Launched {
    pub(crate) child: Child,
    pub(crate) registration: ChildRegistration,
    pub(crate) guard: Option<ParentDeathGuard>,
    pub(crate) domain: Option<Domain>,
}

/// Starts the program in a separate thread, which then waits for it without reaping it. The sandbox's init is reported before the program's end.
pub(crate) fn launch(
    program: Program,
    prepared: Prepared,
    pipes: Pipes,
    notes: Sender<SupervisorEvent>,
    init: Arc<OnceLock<SandboxInit>>,
    guard: impl FnOnce(Confinement) -> Result<Option<ParentDeathGuard>, ProcessError> + Send + 'static,
) -> Result<Launched, ProcessError> {
    let (result_sender, result) = channel();
    spawn_thread("windlass-wait", move || {
        let Prepared {
            mut command,
            inherited,
            info,
        } = prepared;
        let start = move || {
            signals::reset_for_children().map_err(ProcessError::io("reset signals"))?;
            let guard = guard(program.sandbox.confinement)?;
            let outsider = guard.as_ref().and_then(ParentDeathGuard::pid);
            let domain = program.sandbox.confinement.confine_thread(
                &program.sandbox.bounds,
                &program.sandbox.root,
                outsider,
            );
            let domain = domain.map_err(ProcessError::Sandbox)?;
            let stdin = pipes.stdin.map_or_else(Stdio::null, Stdio::from);
            command
                .stdin(stdin)
                .stdout(pipes.stdout)
                .stderr(pipes.stderr);
            let risk = match program.sandbox.confinement {
                Confinement::Bubblewrap => OrphanRisk::Never,
                Confinement::Landlock | Confinement::Unconfined => OrphanRisk::Possible,
            };
            let spawned = match inherited.as_slice() {
                [] => orphans::spawn(&mut command, risk),
                inherited => orphans::spawn_inheriting(&mut command, risk, inherited),
            };
            let (child, registration) = spawned.map_err(ProcessError::io("start the command"))?;
            Ok(Launched {
                child,
                registration,
                guard,
                domain,
            })
        };
        // The closure drops the program's ends of the pipes, so that the readers see the end of the output.
        let launched = start();
        let pid = launched
            .as_ref()
            .ok()
            .and_then(|launched| pid_of(&launched.child));
        let _ = result_sender.send(launched);
        if let Some(pid) = pid {
            if let Some(reported) = info
                .as_ref()
                .and_then(|info| SandboxInit::wait_for(pid, info))
            {
                let member = reported.member();
                let _ = init.set(reported);
                let _ = notes.send(SupervisorEvent::Init(member));
            }
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        }
        let _ = notes.send(SupervisorEvent::Exited);
    })?;
    result.recv().map_err(|_| ProcessError::Lost)?
}

pub(crate) fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}
