//! Processes that commands of a previous daemon on the same data left running.

use std::path::Path;

use windlass_core::digest::Digest128;
use windlass_process::{Records, end_leftovers};
use windlass_store::sqlite::while_unowned;

use crate::cli::note;

/// Ends these processes before the server listens: one that outlived a killed daemon could occupy its port and receive the tokens of its clients. If
/// another process has the data, the processes belong to it and are not touched.
pub(crate) fn end_before_listening(data: &Path) {
    while_unowned(data, || end(data));
}

/// Ends these processes. The caller must hold the lock on the data, because processes of another daemon must not be ended.
pub(super) fn end(data: &Path) {
    let recorded = records(data).as_ref().map_or(0, end_recorded);
    let ended = recorded + end_leftovers(&owner(data));
    if ended > 0 {
        note(format!(
            "ended {ended} processes of an earlier daemon's commands"
        ));
    }
}

/// Returns the name that marks the processes of commands.
pub(super) fn owner(data: &Path) -> String {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    Digest128::hash(data.as_os_str().as_encoded_bytes()).to_string()
}

/// Opens the process records. A daemon that cannot record processes still ends them by all other means.
pub(super) fn records(data: &Path) -> Option<Records> {
    let opened = Records::open(data.join("processes"));
    opened
        .inspect_err(|error| note(format!("processes of commands are not recorded: {error}")))
        .ok()
}

/// Ends processes that an earlier daemon recorded, and returns their number.
fn end_recorded(records: &Records) -> usize {
    match records.end_leftovers() {
        Ok(left) => {
            for file in &left.unreadable {
                note(format!(
                    "{} cannot be read: processes of an earlier daemon may still run; end them and remove the file",
                    file.display()
                ));
            }
            if !left.all_ended {
                note("processes of an earlier daemon still run after SIGKILL");
            }
            left.ended
        }
        Err(error) => {
            note(format!(
                "processes of an earlier daemon cannot be determined: {error}"
            ));
            0
        }
    }
}
