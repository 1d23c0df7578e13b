//! System calls that a sandbox has no rules about. Landlock has none for those that reach other processes past it, and those that open sockets; namespaces
//! have none for the keys of the user, and for sockets that lead out of a machine past its networks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};
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

/// Calls that reach the keys that the kernel keeps for the user, and those of the host's session.
const KEYS: [i64; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];

/// Sockets that a network of its own holds. Others, such as those to the host of a virtual machine, know nothing of networks.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses these calls in the calling thread and in what it starts, for good. Pairs of sockets that are connected to each other still work:
/// they lead nowhere.
pub(super) fn confine_thread(network: Network) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot filter system calls: {error}");
    let program = beside_landlock(network).and_then(filter);
    apply_filter(&program.map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}

/// Writes down what is refused in namespaces, to be read by the sandbox from an open file.
pub(super) fn in_namespaces(network: Network) -> io::Result<OwnedFd> {
    let program = beside_namespaces(network).and_then(filter);
    let mut text = Vec::new();
    for step in program.map_err(io::Error::other)? {
        text.extend_from_slice(&step.code.to_ne_bytes());
        text.extend_from_slice(&[step.jt, step.jf]);
        text.extend_from_slice(&step.k.to_ne_bytes());
    }
    let mut file = File::from(memfd_create("system-calls", MemfdFlags::CLOEXEC)?);
    file.write_all(&text)?;
    file.rewind()?;
    Ok(file.into())
}

fn is_not(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(value.unsigned_abs());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn beside_landlock(network: Network) -> Result<Rules, BackendError> {
    let on_others = SeccompRule::new(vec![is_not(0, 0)?])?;
    let mut rules = Rules::from(KEYS.map(|call| (call, Vec::new())));
    rules.extend(ON_OTHERS.map(|call| (call, vec![on_others.clone()])));
    if network != Network::Inherit {
        rules.extend(SOCKETS.map(|call| (call, Vec::new())));
    }
    Ok(rules)
}

fn beside_namespaces(network: Network) -> Result<Rules, BackendError> {
    let mut rules = Rules::from(KEYS.map(|call| (call, Vec::new())));
    if network != Network::Inherit {
        let families = FAMILIES.into_iter().map(|family| is_not(0, family));
        let others = SeccompRule::new(families.collect::<Result<_, _>>()?)?;
        rules.extend(SOCKETS.map(|call| (call, Vec::new())));
        rules.insert(libc::SYS_socket, vec![others]);
    }
    Ok(rules)
}

fn filter(mut rules: Rules) -> Result<BpfProgram, BackendError> {
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
