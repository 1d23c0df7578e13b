//! Turns off the terminal's echo while a turn is shown, because typed text would appear in the middle of the answer. The input stays in the terminal
//! for the next reader.

use std::io::{self, IsTerminal};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Signal, getpgrp};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use tokio::signal::unix::{SignalKind, signal};

/// The next reader of input that was typed ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedAhead {
    /// A program that reads lines after this command, such as a shell.
    Lines,
    /// The line editor of a chat. It reads keys, and would lose all but the first of several lines.
    Keys,
}

/// The terminal modes with and without echo. The modes with echo stay stored, because a signal may arrive after the turn.
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
    /// A question is shown.
    Asking,
}

static MODES: Mutex<Option<Modes>> = Mutex::new(None);

/// A terminal without echo until this is dropped.
pub(crate) struct Hush(());

impl Hush {
    /// Turns the echo off. `None` if there is no user to type, nothing is shown on a terminal, or the terminal cannot be configured. This is only
    /// cosmetic, so a failure does not end the turn.
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
        // Installs the signal handlers before it changes the terminal: from then on, no signal leaves it without echo.
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

/// The terminal modes before another program uses the terminal. That program may be killed before it restores them.
pub(crate) struct AsItWas(Option<Termios>);

impl AsItWas {
    pub(crate) fn now() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    /// Restores the stored modes.
    pub(crate) fn restore(&self) {
        if let Some(modes) = self.0.as_ref().filter(|_| is_in_front()) {
            // A terminal that is gone needs no restoring.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
        }
    }
}

impl Drop for AsItWas {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Turns the echo on for a question. Without a shown turn, it does nothing.
pub(super) fn shown() {
    change(State::Hushed, State::Asking);
}

/// Turns the echo off again after the answer.
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

/// Applies the modes of the current state. Pending input stays in the terminal.
fn apply(modes: &Option<Modes>) {
    let Some(modes) = modes.as_ref().filter(|_| is_in_front()) else {
        return;
    };
    let wanted = match modes.state {
        State::Hushed => &modes.hushed,
        State::Over | State::Asking => &modes.usual,
    };
    // A terminal that is gone needs no restoring.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, wanted);
}

/// Returns whether this process may configure the terminal: a background process would be stopped.
fn is_in_front() -> bool {
    // Without a controlling terminal, there is no background.
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

/// Ensures that signals do not end this process while the echo is off. The turn handles Ctrl-C. After a stop (Ctrl-Z), the shell sets its own modes,
/// so they are applied again when the process continues.
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
