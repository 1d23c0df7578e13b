//! No sockets: landlock knows rules about TCP, and about nothing else that leads out.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Makes every attempt to open a socket fail in the calling thread and in what it starts, for good. Pairs of sockets that
/// are connected to each other still work: they lead nowhere.
pub(super) fn forbid_in_thread() -> Result<(), String> {
    let program = filter().map_err(|error| format!("cannot forbid sockets: {error}"))?;
    apply_filter(&program).map_err(|error| format!("cannot forbid sockets: {error}"))
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    // The second makes sockets without the first being called.
    let calls = [libc::SYS_socket, libc::SYS_io_uring_setup];
    let rules: BTreeMap<_, _> = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        refused,
        std::env::consts::ARCH.try_into()?,
    )?;
    filter.try_into()
}
