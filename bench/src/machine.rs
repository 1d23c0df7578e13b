//! CPU time and memory of processes.

use std::time::Duration;

/// Returns the CPU time of all threads of this process so far.
pub fn cpu_time() -> Duration {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(
        unsafe_code,
        reason = "the standard library has no clock for CPU time; the call only writes `time`"
    )]
    // SAFETY: `time` is a valid timespec that lives through the call.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if status != 0 {
        return Duration::ZERO;
    }
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// Returns the resident memory of this process, in bytes; 0 if the system does not report it.
pub fn resident_bytes() -> u64 {
    status_field("VmRSS:")
}

/// Returns the largest resident memory of this process so far, in bytes.
pub fn peak_resident_bytes() -> u64 {
    status_field("VmHWM:")
}

/// Returns the resident memory of another process, in bytes.
pub fn resident_bytes_of(process: u32) -> u64 {
    field_of(&format!("/proc/{process}/status"), "VmRSS:")
}

/// Returns the CPU time of another process so far, including threads that have ended.
pub fn cpu_time_of(process: u32) -> Duration {
    let mut clock: libc::clockid_t = 0;
    let process = libc::pid_t::try_from(process).unwrap_or_default();
    #[expect(
        unsafe_code,
        reason = "the standard library has no clock for another process; the call only writes `clock`"
    )]
    // SAFETY: `clock` is valid for writes during the call.
    let status = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) };
    if status == 0 {
        read_clock(clock)
    } else {
        Duration::ZERO
    }
}

fn status_field(name: &str) -> u64 {
    field_of("/proc/self/status", name)
}

fn field_of(path: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Bytes written by this process so far.
#[derive(Clone, Copy, Default)]
pub struct BytesWritten {
    /// Bytes written to disk, in whole pages; 0 on a file system in memory.
    pub to_disk: u64,
    /// Bytes passed to the system.
    pub handed_over: u64,
}

/// Returns the bytes written by this process so far; zeros if the system does not report them.
pub fn written() -> BytesWritten {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |name: &str| {
        let value = io.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok())
    };
    BytesWritten {
        to_disk: field("write_bytes:").unwrap_or(0),
        handed_over: field("wchar:").unwrap_or(0),
    }
}

/// Describes the machine for the table header.
pub fn name() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, model)| model.trim());
    format!(
        "{model}, {cores} cores, {} {}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}
