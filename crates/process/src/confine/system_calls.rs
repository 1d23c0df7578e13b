//! System calls that landlock has no rules about: those that reach other processes past it, and those that open sockets.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

use crate::network::Network;

/// Calls that change a process by its number: with limits or a schedule of their own others can be stopped or ended. 0 is the caller itself.
const ON_OTHERS: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Calls that open sockets; the second does it without the first.
const SOCKETS: [i64; 2] = [libc::SYS_socket, libc::SYS_io_uring_setup];

/// Refuses these calls in the calling thread and in what it starts, for good. Pairs of sockets that are connected to each other still work:
/// they lead nowhere.
pub(super) fn confine_thread(network: Network) -> Result<(), String> {
    let program =
        filter(network).map_err(|error| format!("cannot filter system calls: {error}"))?;
    apply_filter(&program).map_err(|error| format!("cannot filter system calls: {error}"))
}

fn filter(network: Network) -> Result<BpfProgram, BackendError> {
    let is_other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
    let on_others = SeccompRule::new(vec![is_other])?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in ON_OTHERS {
        rules.insert(call, vec![on_others.clone()]);
    }
    if network != Network::Inherit {
        rules.extend(SOCKETS.map(|call| (call, Vec::new())));
    }
    // The same calls in their other numbering, where the kernel has it.
    #[cfg(target_arch = "x86_64")]
    {
        const X32: i64 = 0x4000_0000;
        let again: Vec<_> = rules.clone().into_iter().collect();
        rules.extend(again.into_iter().map(|(call, rule)| (call | X32, rule)));
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EACCES.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    filter.try_into()
}
