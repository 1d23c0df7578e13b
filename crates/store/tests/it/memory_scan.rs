//! Searches the memory of this process for a secret.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use zeroize::Zeroizing;

/// The mask of a test's copy, so that the copy is not the secret.
const MASK: u8 = 0xa5;

/// A secret, stored only as a masked copy.
pub(crate) struct Needle {
    masked: Vec<u8>,
}

impl Needle {
    pub(crate) fn new() -> Self {
        let mut masked = Vec::new();
        for _ in 0..3 {
            let part = Zeroizing::new(uuid::Uuid::now_v7().simple().to_string());
            masked.extend(part.bytes().map(|byte| byte ^ MASK));
        }
        Self { masked }
    }

    pub(crate) fn spelled(&self) -> Zeroizing<String> {
        let mut secret = Zeroizing::new(String::with_capacity(self.masked.len()));
        secret.extend(self.masked.iter().map(|byte| char::from(byte ^ MASK)));
        secret
    }

    /// Counts the occurrences of the last part of the secret in memory. An allocator may overwrite the beginning of freed memory, so its absence
    /// would prove nothing.
    pub(crate) fn count(&self) -> usize {
        let tail = &self.masked[64..];
        let memory = File::open("/proc/self/mem").unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut window = Zeroizing::new(vec![0; 1 << 16]);
        // The read buffer is in memory too, and must be excluded.
        let own = window.as_ptr().addr() as u64;
        let own = own..own + window.len() as u64;
        let mut found = 0;
        for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
            let (range, _) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let start = u64::from_str_radix(start, 16).unwrap();
            let end = u64::from_str_radix(end, 16).unwrap();
            // One of these is empty unless the window is right inside.
            let parts = [start..end.min(own.start), start.max(own.end)..end];
            for part in parts {
                let mut at = part.start;
                while at + (tail.len() as u64) <= part.end {
                    let length = (part.end - at).min(window.len() as u64);
                    let seen = &mut window[..usize::try_from(length).unwrap()];
                    // Memory that another thread has just unmapped cannot be read.
                    if memory.read_exact_at(seen, at).is_ok() {
                        found += occurrences(seen, tail);
                    }
                    // The next window begins where a run may have been cut.
                    at += (length - tail.len() as u64 + 1).max(1);
                }
            }
        }
        found
    }
}

/// Counts a masked run of hexadecimal digits. Only one byte in each length of it is looked at first: where none is a
/// digit, there is no run.
fn occurrences(bytes: &[u8], masked: &[u8]) -> usize {
    let length = masked.len();
    let equal = |at: &[u8]| at.iter().zip(masked).all(|(a, b)| *a == b ^ MASK);
    (length - 1..bytes.len())
        .step_by(length)
        .filter(|&at| bytes[at].is_ascii_hexdigit())
        .map(|at| {
            let window = &bytes[at + 1 - length..bytes.len().min(at + length)];
            window.windows(length).filter(|run| equal(run)).count()
        })
        .sum()
}
