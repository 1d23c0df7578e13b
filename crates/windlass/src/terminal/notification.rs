//! Notifies the user of a turn that ended, or waits for an answer, after a longer time.

use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::config::{self, Notify, Terminal};

/// The default time after which the user is notified.
pub(crate) const NOTIFY_AFTER: Duration = Duration::from_secs(10);

static SETTINGS: OnceLock<Terminal> = OnceLock::new();

/// Reads the terminal's settings from the user's own file and the named one. An unreadable file is reported where the daemon reads it.
pub(crate) fn configure(named: Option<&Path>) {
    let settings = config::of_terminal(named).unwrap_or_default();
    // Only the first command of a process configures it.
    let _ = SETTINGS.set(settings);
}

/// Notifies the user if they have waited for some time. `text` must not contain control characters.
pub(super) fn notify(waited: Duration, text: &str) -> io::Result<()> {
    let Some(settings) = SETTINGS.get() else {
        return Ok(());
    };
    let Some(sequence) = sequence(settings, waited, text) else {
        return Ok(());
    };
    let mut err = io::stderr();
    err.write_all(sequence.as_bytes())?;
    err.flush()
}

fn sequence(settings: &Terminal, waited: Duration, text: &str) -> Option<String> {
    let after = settings.notify_after_seconds.map(Duration::from_secs);
    if waited < after.unwrap_or(NOTIFY_AFTER) {
        return None;
    }
    match settings.notify {
        Notify::Off => None,
        Notify::Bell => Some("\x07".to_owned()),
        Notify::Osc9 => Some(format!("\x1b]9;windlass: {text}\x07")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_notified_as_configured_after_some_time() {
        let settings = |notify| Terminal {
            notify,
            notify_after_seconds: Some(5),
        };
        let (short, long) = (Duration::from_secs(4), Duration::from_secs(5));
        let shown = |notify, waited| sequence(&settings(notify), waited, "done");
        assert_eq!(shown(Notify::Off, long), None);
        assert_eq!(shown(Notify::Bell, short), None);
        assert_eq!(shown(Notify::Bell, long).as_deref(), Some("\x07"));
        let osc9 = "\x1b]9;windlass: done\x07";
        assert_eq!(shown(Notify::Osc9, long).as_deref(), Some(osc9));
    }
}
