//! Turns off the terminal's echo while a turn is shown: typed text would appear in the middle of the answer. The terminal keeps the input for the next
//! reader.

use std::io::{self, IsTerminal, Write};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Signal, getpgrp};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    tcsetattr,
};
use tokio::signal::unix::{SignalKind, signal};

use super::typed_keys::{PASTE_OFF, PASTE_ON};

/// The next reader of input that is typed during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedAhead {
    /// A program that reads lines after this command, such as a shell.
    Lines,
    /// The chat, which reads keys during the turn, and whose line editor reads keys after it.
    Keys,
}

/// The terminal modes with and without echo. They stay stored after the turn, because a signal may arrive then.
struct Modes {
    with_echo: Termios,
    without_echo: Termios,
    ahead: TypedAhead,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No turn is shown.
    Idle,
    Hidden,
    /// A question is shown.
    Asking,
}

static MODES: Mutex<Option<Modes>> = Mutex::new(None);

/// A terminal without echo until this is dropped.
pub(crate) struct EchoOff(());

impl EchoOff {
    /// Turns the echo off. Returns `None` if standard input or the output is not a terminal, or the terminal cannot be configured: the echo is only
    /// cosmetic.
    pub(crate) fn begin(ahead: TypedAhead) -> Option<Self> {
        let is_visible = io::stdout().is_terminal() || io::stderr().is_terminal();
        if !io::stdin().is_terminal() || !is_visible || !is_foreground() {
            return None;
        }
        let with_echo = tcgetattr(io::stdin()).ok()?;
        let mut without_echo = with_echo.clone();
        without_echo.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
        if ahead == TypedAhead::Keys {
            without_echo.input_modes -= InputModes::ICRNL;
            without_echo.local_modes -= LocalModes::ICANON;
            without_echo.special_codes[SpecialCodeIndex::VMIN] = 1;
            without_echo.special_codes[SpecialCodeIndex::VTIME] = 0;
        }
        // The signal handlers come first: from then on, no signal leaves the terminal without echo.
        let mut modes = modes();
        if modes.is_none() {
            watch_signals().ok()?;
        }
        *modes = Some(Modes {
            with_echo,
            without_echo,
            ahead,
            state: State::Hidden,
        });
        apply(&modes);
        Some(Self(()))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        enter(State::Idle);
    }
}

/// The terminal modes before another program uses the terminal. That program may be killed before it restores them.
pub(crate) struct SavedTerminalModes(Option<Termios>);

impl SavedTerminalModes {
    pub(crate) fn now() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    /// Restores the stored modes.
    pub(crate) fn restore(&self) {
        if let Some(modes) = self.0.as_ref().filter(|_| is_foreground()) {
            // A terminal that is gone needs no restoring.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
        }
    }
}

impl Drop for SavedTerminalModes {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Turns the echo on for a question. Without a shown turn, it does nothing.
pub(super) fn echo_on() {
    change(State::Hidden, State::Asking);
}

/// Turns the echo off again after the answer.
pub(super) fn echo_off() {
    change(State::Asking, State::Hidden);
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
    let Some(modes) = modes.as_ref().filter(|_| is_foreground()) else {
        return;
    };
    let current = match modes.state {
        State::Hidden => &modes.without_echo,
        State::Idle | State::Asking => &modes.with_echo,
    };
    // A terminal that is gone needs no restoring.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, current);
    if modes.ahead == TypedAhead::Keys {
        let paste = match modes.state {
            State::Hidden => PASTE_ON,
            State::Idle | State::Asking => PASTE_OFF,
        };
        let _ = io::stderr().write_all(paste.as_bytes());
    }
}

/// Returns whether this process may configure the terminal: the system stops background processes that do.
fn is_foreground() -> bool {
    // Without a controlling terminal, no process is in the background.
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

/// Turns the echo on before a signal ends this process; the turn handles Ctrl-C. After a stop (Ctrl-Z) the shell sets its own modes, so these are
/// applied again when the process continues.
fn watch_signals() -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::quit()] {
        let mut ended = signal(kind)?;
        tokio::spawn(async move {
            if ended.recv().await.is_some() {
                enter(State::Idle);
                exit(128 + kind.as_raw_value());
            }
        });
    }
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    tokio::spawn(async move {
        while continued.recv().await.is_some() {
            let modes = modes();
            let is_shown = |modes: &Modes| modes.state != State::Idle;
            if modes.as_ref().is_some_and(is_shown) {
                apply(&modes);
            }
        }
    });
    Ok(())
}
