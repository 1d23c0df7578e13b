//! While a turn is shown, the terminal does not show what is typed: it would stand in the middle of the answer. It waits in the terminal for
//! whoever reads next.

use std::io::{self, IsTerminal};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Signal, getpgrp};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use tokio::signal::unix::{SignalKind, signal};

/// Who reads what was typed ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedAhead {
    /// Whoever reads lines after this command, such as a shell.
    Lines,
    /// The editor of a chat. It takes keys, and of several lines in one piece it would lose all but the first.
    Keys,
}

/// How the terminal is with its echo, and without. The first stays known: a signal may come when a turn is over.
struct Modes {
    usual: Termios,
    hushed: Termios,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No turn is shown.
    Over,
    Hushed,
    /// Somebody is asked something.
    Asking,
}

static MODES: Mutex<Option<Modes>> = Mutex::new(None);

/// A terminal without echo, until this is dropped.
pub(crate) struct Hush(());

impl Hush {
    /// Turns the echo off; `None` where nobody types, nobody could see it, or the terminal does not let itself be set: it is a comfort, and no
    /// reason to end a turn.
    pub(crate) fn begin(ahead: TypedAhead) -> Option<Self> {
        let is_seen = io::stdout().is_terminal() || io::stderr().is_terminal();
        if !io::stdin().is_terminal() || !is_seen || !is_in_front() {
            return None;
        }
        let usual = tcgetattr(io::stdin()).ok()?;
        let mut hushed = usual.clone();
        hushed.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
        if ahead == TypedAhead::Keys {
            hushed.input_modes -= InputModes::ICRNL;
        }
        // The signals before the terminal: from then on none of them leaves it without echo.
        let mut modes = modes();
        if modes.is_none() {
            watch_signals().ok()?;
        }
        *modes = Some(Modes {
            usual,
            hushed,
            state: State::Hushed,
        });
        apply(&modes);
        Some(Self(()))
    }
}

impl Drop for Hush {
    fn drop(&mut self) {
        enter(State::Over);
    }
}

/// How a terminal is set before another program has it, which may be killed before it sets it back.
pub(crate) struct AsItWas(Option<Termios>);

impl AsItWas {
    pub(crate) fn now() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    /// Sets the terminal as it was.
    pub(crate) fn restore(&self) {
        if let Some(modes) = self.0.as_ref().filter(|_| is_in_front()) {
            // A terminal that is gone needs no setting.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
        }
    }
}

impl Drop for AsItWas {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Shows what is typed, because somebody is asked; where no turn is shown it does nothing.
pub(super) fn shown() {
    change(State::Hushed, State::Asking);
}

/// Shows no longer what is typed, because it is answered.
pub(super) fn hidden() {
    change(State::Asking, State::Hushed);
}

fn modes() -> MutexGuard<'static, Option<Modes>> {
    MODES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change(from: State, to: State) {
    if modes().as_ref().is_some_and(|modes| modes.state == from) {
        enter(to);
    }
}

fn enter(state: State) {
    let mut modes = modes();
    if let Some(modes) = modes.as_mut() {
        modes.state = state;
    }
    apply(&modes);
}

/// Sets the terminal as it is to be. What was typed stays there.
fn apply(modes: &Option<Modes>) {
    let Some(modes) = modes.as_ref().filter(|_| is_in_front()) else {
        return;
    };
    let wanted = match modes.state {
        State::Hushed => &modes.hushed,
        State::Over | State::Asking => &modes.usual,
    };
    // A terminal that is gone needs no setting.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, wanted);
}

/// Tells whether the terminal is this process's to set: one in the background would be stopped for it.
fn is_in_front() -> bool {
    // Where it is not the controlling terminal, nobody is in the background.
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

/// Lets no signal end this process with a terminal that is not as it was. Ctrl-C is the turn's. What stops the process (Ctrl-Z) gives the
/// terminal to a shell, which sets it as it likes, so it is set again when the process goes on.
fn watch_signals() -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::quit()] {
        let mut ended = signal(kind)?;
        tokio::spawn(async move {
            if ended.recv().await.is_some() {
                enter(State::Over);
                exit(128 + kind.as_raw_value());
            }
        });
    }
    let mut goes_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    tokio::spawn(async move {
        while goes_on.recv().await.is_some() {
            let modes = modes();
            let is_shown = |modes: &Modes| modes.state != State::Over;
            if modes.as_ref().is_some_and(is_shown) {
                apply(&modes);
            }
        }
    });
    Ok(())
}
