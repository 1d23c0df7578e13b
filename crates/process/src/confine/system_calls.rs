//! System calls that the sandbox itself does not govern. Landlock does not cover calls that affect other processes, IPC of the user's other programs,
//! file attributes, or calls that open sockets. Namespaces do not cover the user's keys, or sockets that leave the machine without its networks.
//! Neither covers setuid programs that a command leaves on disk.

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

/// Calls that change another process by PID: with new limits or a new schedule it could be stopped or ended. PID 0 is the caller itself.
const ON_OTHERS: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The same for calls whose first argument gives the kind of the ID, with the value for a process (`PRIO_PROCESS`, `IOPRIO_WHO_PROCESS`). The ID can
/// also be of a group or a user.
const ON_OTHERS_BY_KIND: [(i64, i32); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// Calls that are refused whatever their arguments: those that access the kernel's keyrings of the user and of the host's session, and the one that
/// opens files and sockets without the calls that are filtered here.
const REFUSED: [i64; 4] = [
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
];

/// System V IPC and message queues of the user's other programs, which namespaces hide and Landlock does not. Refusing the calls that open one is
/// sufficient for most of the others, but a segment or queue can be removed by its ID alone.
const IPC: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_fanotify_init,
];

/// Calls that change extended attributes, which Landlock does not govern. The last two have the same number on all architectures, and `libc` does not
/// define them.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463, // setxattrat
    466, // removexattrat
];

/// `ioctl` requests that insert characters into the input of a terminal as if they were typed (`TIOCSTI`, `TIOCLINUX`).
const TERMINAL_INPUT: [u32; 2] = [0x5412, 0x541C];

/// Calls that set the mode of a file or create one with it, and the index of that argument. Directories are created without the bits that matter
/// here.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that create a file if their flags request it, and the index of the flags. The mode is the next argument.
const OPENING: &[(i64, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// The flags that create a file; each is sufficient.
const CREATING: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE];

/// The setuid and setgid bits: a program with one of them could be started outside the sandbox with its owner's or group's rights.
const SETID_BITS: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Calls that change the memory or control flow of a process, and the index of the PID argument.
const INTRUSIVE: [(i64, u8); 2] = [(libc::SYS_ptrace, 1), (libc::SYS_process_vm_writev, 0)];

/// PID of the sandbox's init. It ends with the host, and all other processes with it, unless a process clears its death signal.
const INIT: u32 = 1;

/// Socket families that a network namespace confines. Others, such as sockets to the host of a virtual machine, ignore network namespaces.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Permanently refuses these calls in the calling thread and in the programs it starts. Connected socket pairs still work, because they lead nowhere
/// else.
pub(super) fn confine_thread(network: Network) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot filter system calls: {error}");
    let program = landlock_rules(network).and_then(|rules| {
        let attributes = refused(ATTRIBUTES);
        // Programs that copy files interpret this error as a file system without attributes.
        combined([(attributes, libc::EOPNOTSUPP), (rules, libc::EACCES)])
    });
    apply_filter(&program.map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}

/// Writes the filter for a namespace sandbox to an open file that bubblewrap reads.
pub(super) fn in_namespaces(network: Network) -> io::Result<OwnedFd> {
    let program = namespace_rules(network).and_then(|rules| combined([(rules, libc::EACCES)]));
    let mut text = Vec::new();
    for step in program.map_err(io::Error::other)? {
        text.extend_from_slice(&step.code.to_ne_bytes());
        text.extend_from_slice(&[step.jt, step.jf]);
        text.extend_from_slice(&step.k.to_ne_bytes());
    }
    memory_file("system-calls", &text)
}

/// Creates an open file in memory, positioned at its start.
pub(super) fn memory_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

fn is_not(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(value.unsigned_abs());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn is(argument: u8, value: u32) -> Result<SeccompCondition, BackendError> {
    let (length, value) = (SeccompCmpArgLen::Dword, u64::from(value));
    SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value)
}

fn has(argument: u8, bits: u32) -> Result<SeccompCondition, BackendError> {
    let bits = u64::from(bits);
    let is_set = SeccompCmpOp::MaskedEq(bits);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is_set, bits)
}

/// Refuses these calls whatever their arguments.
fn refused(calls: &[i64]) -> SyscallRules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn always_refused() -> Result<SyscallRules, BackendError> {
    let mut rules = refused(&REFUSED);
    let requests = TERMINAL_INPUT.map(|request| SeccompRule::new(vec![is(1, request)?]));
    rules.insert(
        libc::SYS_ioctl,
        requests.into_iter().collect::<Result<_, _>>()?,
    );
    Ok(rules)
}

fn landlock_rules(network: Network) -> Result<SyscallRules, BackendError> {
    let on_others = SeccompRule::new(vec![is_not(0, 0)?])?;
    let mut rules = always_refused()?;
    rules.extend(refused(IPC));
    rules.extend(ON_OTHERS.map(|call| (call, vec![on_others.clone()])));
    for (call, process) in ON_OTHERS_BY_KIND {
        let of_more = SeccompRule::new(vec![is_not(0, process)?])?;
        let of_another = SeccompRule::new(vec![is_not(1, 0)?])?;
        rules.insert(call, vec![of_more, of_another]);
    }
    if network != Network::Inherit {
        rules.insert(libc::SYS_socket, Vec::new());
    }
    Ok(rules)
}

fn namespace_rules(network: Network) -> Result<SyscallRules, BackendError> {
    let mut rules = always_refused()?;
    for (call, argument) in INTRUSIVE {
        rules.insert(call, vec![SeccompRule::new(vec![is(argument, INIT)?])?]);
    }
    if network != Network::Inherit {
        let families = FAMILIES.into_iter().map(|tree| is_not(0, tree));
        let others = SeccompRule::new(families.collect::<Result<_, _>>()?)?;
        rules.insert(libc::SYS_socket, vec![others]);
    }
    Ok(rules)
}

/// Refuses modes with the setuid or setgid bit.
fn mode_rules() -> Result<SyscallRules, BackendError> {
    let mut rules = SyscallRules::new();
    for (call, mode) in MODES {
        let setid = SETID_BITS.map(|bit| SeccompRule::new(vec![has(*mode, bit)?]));
        rules.insert(*call, setid.into_iter().collect::<Result<_, _>>()?);
    }
    for (call, flags) in OPENING {
        let mut setid = Vec::new();
        for creating in CREATING {
            for bit in SETID_BITS {
                // Without a creating flag, the mode argument can hold any value.
                let conditions = vec![has(*flags, creating.unsigned_abs())?, has(flags + 1, bit)?];
                setid.push(SeccompRule::new(conditions)?);
            }
        }
        rules.insert(*call, setid);
    }
    Ok(rules)
}

/// Combines a sandbox's rules with the common ones into one filter program: older versions of bubblewrap accept only one.
fn combined<const N: usize>(refused: [(SyscallRules, i32); N]) -> Result<BpfProgram, BackendError> {
    // `openat2` passes its mode in memory that a filter cannot read. Programs handle kernels that lack this call.
    let unknown = SyscallRules::from([(libc::SYS_openat2, Vec::new())]);
    let mut program = filter(unknown, libc::ENOSYS)?;
    for (rules, error) in [(mode_rules()?, libc::EPERM)].into_iter().chain(refused) {
        // No call is in two filters, so a call that one filter does not list continues with the next. The removed last step would allow it.
        program.pop();
        program.extend(filter(rules, error)?);
    }
    Ok(program)
}

/// Returns the number of a call in the x32 ABI: it has an additional bit, and calls that take pointers to structures have different numbers.
#[cfg(target_arch = "x86_64")]
fn x32(call: i64) -> i64 {
    const X32: i64 = 0x4000_0000;
    let number = match call {
        libc::SYS_ioctl => 514,
        libc::SYS_ptrace => 521,
        libc::SYS_process_vm_writev => 540,
        same => same,
    };
    number | X32
}

fn filter(mut rules: SyscallRules, error: i32) -> Result<BpfProgram, BackendError> {
    // The same calls with their x32 numbers, for kernels with that ABI.
    #[cfg(target_arch = "x86_64")]
    {
        let again: Vec<_> = rules.clone().into_iter().collect();
        rules.extend(again.into_iter().map(|(call, rule)| (x32(call), rule)));
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(error.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    filter.try_into()
}
