//! System calls that a sandbox has no rules about. Landlock has none for those that reach other processes past it, IPC of the user's other programs,
//! attributes of files, and those that open sockets; namespaces have none for the keys of the user, and for sockets that lead out of a machine past its networks. Neither has one for programs that are left behind
//! with the rights of who left them.

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

/// The same for those that say first what the number is of, and how a process is said there (`PRIO_PROCESS`, `IOPRIO_WHO_PROCESS`): it may as well be of a
/// group or a user.
const ON_OTHERS_OF: [(i64, i32); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// Calls that are refused whatever they say: those that reach the keys that the kernel keeps for the user, and those of the host's session, and the one that
/// opens files and sockets without the calls that are judged here.
const NEVER: [i64; 4] = [
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
];

/// System V IPC and message queues of the user's other programs, which namespaces hide and Landlock does not. Without the calls that open one, the
/// others have nothing to work on, but a segment or queue can be removed by its number alone.
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

/// Calls that change extended attributes, which Landlock does not govern. The last two have the same number on all architectures, and
/// `libc` does not name them.
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

/// Requests of `ioctl` that put characters into the input of a terminal, as if they were typed there (`TIOCSTI`, `TIOCLINUX`).
const TYPING: [u32; 2] = [0x5412, 0x541C];

/// Calls that set the mode of a file or make one with it, and which argument that is. Directories are made without the bits that matter here.
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

/// Calls that make a file if their flags say so, and which argument these are. The mode comes behind them.
const OPENING: &[(i64, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// The flags that make one, each by itself.
const MAKING: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE];

/// The bits of a mode that lend the rights of a file's owner, or of its group, to whoever starts it. It could be started outside.
const LENDING: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Calls that change the memory or the course of a process, and which argument its number is.
const INTO_OTHERS: [(i64, u8); 2] = [(libc::SYS_ptrace, 1), (libc::SYS_process_vm_writev, 0)];

/// The sandbox's own init. It ends with the host, and everybody with it, unless it is made to forget that.
const INIT: u32 = 1;

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
    let program = beside_landlock(network).and_then(|rules| {
        let attributes = refused(ATTRIBUTES);
        // Programs that copy files take that for a file system without attributes.
        whole([(attributes, libc::EOPNOTSUPP), (rules, libc::EACCES)])
    });
    apply_filter(&program.map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}

/// Writes down what is refused in namespaces, to be read by the sandbox from an open file.
pub(super) fn in_namespaces(network: Network) -> io::Result<OwnedFd> {
    let program = beside_namespaces(network).and_then(|rules| whole([(rules, libc::EACCES)]));
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
fn refused(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn everywhere() -> Result<Rules, BackendError> {
    let mut rules = refused(&NEVER);
    let typing = TYPING.map(|request| SeccompRule::new(vec![is(1, request)?]));
    rules.insert(
        libc::SYS_ioctl,
        typing.into_iter().collect::<Result<_, _>>()?,
    );
    Ok(rules)
}

fn beside_landlock(network: Network) -> Result<Rules, BackendError> {
    let on_others = SeccompRule::new(vec![is_not(0, 0)?])?;
    let mut rules = everywhere()?;
    rules.extend(refused(IPC));
    rules.extend(ON_OTHERS.map(|call| (call, vec![on_others.clone()])));
    for (call, process) in ON_OTHERS_OF {
        let of_more = SeccompRule::new(vec![is_not(0, process)?])?;
        let of_another = SeccompRule::new(vec![is_not(1, 0)?])?;
        rules.insert(call, vec![of_more, of_another]);
    }
    if network != Network::Inherit {
        rules.insert(libc::SYS_socket, Vec::new());
    }
    Ok(rules)
}

fn beside_namespaces(network: Network) -> Result<Rules, BackendError> {
    let mut rules = everywhere()?;
    for (call, whom) in INTO_OTHERS {
        rules.insert(call, vec![SeccompRule::new(vec![is(whom, INIT)?])?]);
    }
    if network != Network::Inherit {
        let families = FAMILIES.into_iter().map(|family| is_not(0, family));
        let others = SeccompRule::new(families.collect::<Result<_, _>>()?)?;
        rules.insert(libc::SYS_socket, vec![others]);
    }
    Ok(rules)
}

/// No file may lend rights.
fn on_modes() -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for (call, mode) in MODES {
        let lending = LENDING.map(|bit| SeccompRule::new(vec![has(*mode, bit)?]));
        rules.insert(*call, lending.into_iter().collect::<Result<_, _>>()?);
    }
    for (call, flags) in OPENING {
        let mut lending = Vec::new();
        for making in MAKING {
            for bit in LENDING {
                // Where nothing is made, anything may stand in the place of the mode.
                let conditions = vec![has(*flags, making.unsigned_abs())?, has(flags + 1, bit)?];
                lending.push(SeccompRule::new(conditions)?);
            }
        }
        rules.insert(*call, lending);
    }
    Ok(rules)
}

/// Makes one program of what a sandbox refuses and what all of them do. Older versions of bubblewrap take only one.
fn whole<const N: usize>(refused: [(Rules, i32); N]) -> Result<BpfProgram, BackendError> {
    // It says its mode in a place that a filter cannot look at. Programs know kernels that do not have it.
    let unknown = Rules::from([(libc::SYS_openat2, Vec::new())]);
    let mut program = filter(unknown, libc::ENOSYS)?;
    for (rules, error) in [(on_modes()?, libc::EPERM)].into_iter().chain(refused) {
        // No call is in two of them, so whatever one does not name goes on to the next: its last step would allow it.
        program.pop();
        program.extend(filter(rules, error)?);
    }
    Ok(program)
}

/// Returns the number of a call in the x32 ABI: it has a bit of its own, and calls that take pointers to structures are counted anew.
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

fn filter(mut rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
    // The same calls in their other numbering (x32), where the kernel has it.
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
