//! Processes that commands of a previous daemon on the same data left running.

use std::path::Path;

use windlass_core::digest::Digest128;
use windlass_process::{Records, end_leftovers};
use windlass_store::sqlite::while_unowned;

use crate::cli::note;

/// Ends them before anything listens: one that outlived a killed daemon could hold its port and be shown the tokens of its clients. Where
/// another process has the data, they are its own and left alone.
pub(crate) fn end_before_listening(data: &Path) {
    while_unowned(data, || end(data));
}

/// Ends them. The lock on the data must be held: processes of another daemon are not ours.
pub(super) fn end(data: &Path) {
    let recorded = records(data).as_ref().map_or(0, end_recorded);
    let ended = recorded + end_leftovers(&owner(data));
    if ended > 0 {
        note(&format!("{ended} commands of an earlier daemon were ended"));
    }
}

/// Returns the name by which processes of commands are marked.
pub(super) fn owner(data: &Path) -> String {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    Digest128::of(data.as_os_str().as_encoded_bytes()).to_string()
}

/// Opens where processes are recorded. A daemon that cannot record them still ends them by all other means.
pub(super) fn records(data: &Path) -> Option<Records> {
    let opened = Records::open(data.join("processes"));
    opened
        .inspect_err(|error| note(&format!("processes of commands are not recorded: {error}")))
        .ok()
}

/// Ends what an earlier daemon recorded, and returns how many processes that were.
fn end_recorded(records: &Records) -> usize {
    match records.end_leftovers() {
        Ok(left) => {
            for file in &left.unreadable {
                note(&format!(
                    "{} cannot be read: processes of an earlier daemon may still run; end them and remove the file",
                    file.display()
                ));
            }
            if !left.is_whole {
                note("processes of an earlier daemon are still there after SIGKILL");
            }
            left.ended
        }
        Err(error) => {
            note(&format!(
                "what an earlier daemon left is not known: {error}"
            ));
            0
        }
    }
}
