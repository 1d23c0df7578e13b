//! Further names of a directory that result from mounts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mounted file system, or a mounted part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    device: String,
    /// The part of the file system that is mounted.
    root: PathBuf,
    point: PathBuf,
    /// Type of the file system.
    kind: String,
}

/// Reads the mount table; empty if the system has none, and names by mounts are then unknown.
pub(super) fn read() -> Vec<Mount> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(parse).collect()
}

/// Parses a line: `36 35 98:0 /root /point options …`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1);
    Some(Mount {
        device: String::from_utf8(device.to_vec()).ok()?,
        root: unescaped(root),
        point: unescaped(point),
        kind: String::from_utf8_lossy(kind.unwrap_or_default()).into_owned(),
    })
}

/// Returns the devices of `/proc` file systems.
#[cfg(target_os = "linux")]
pub(super) fn proc_devices(mounts: &[Mount]) -> Vec<u64> {
    let device = |mount: &Mount| {
        let (major, minor) = mount.device.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        Some(rustix::fs::makedev(major, minor))
    };
    let shown = mounts.iter().filter(|mount| mount.kind == "proc");
    shown.filter_map(device).collect()
}

/// Other systems have none.
#[cfg(not(target_os = "linux"))]
pub(super) fn proc_devices(_mounts: &[Mount]) -> Vec<u64> {
    Vec::new()
}

/// Decodes spaces and backslashes, which the kernel writes as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *byte == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[3..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// Returns other paths at which `real`, or parts of it, can be reached because they are mounted there too.
pub(super) fn other_names(real: &Path, mounts: &[Mount]) -> Vec<PathBuf> {
    // Of several mounts at one path, the last one is on top.
    let holding = mounts.iter().filter(|mount| real.starts_with(&mount.point));
    let Some(home) = holding.max_by_key(|mount| mount.point.iter().count()) else {
        return Vec::new();
    };
    let inside = home
        .root
        .join(real.strip_prefix(&home.point).unwrap_or(real));
    let others = mounts.iter().filter(|mount| mount.device == home.device);
    let names = others.filter_map(|mount| match inside.strip_prefix(&mount.root) {
        Ok(rest) if rest.as_os_str().is_empty() => Some(mount.point.clone()),
        Ok(rest) => Some(mount.point.join(rest)),
        Err(_) => mount.root.starts_with(&inside).then(|| mount.point.clone()),
    });
    names.filter(|name| name != real).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_a_path_of_its_part_and_of_its_parent_are_other_names() {
        let text = br"22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 254:0 /home/u /mnt/home rw - ext4 /dev/vda rw
31 22 254:0 /home/u/data /mnt/my\040data rw - ext4 /dev/vda rw
32 22 254:0 /home/u/data/keys /keys rw - ext4 /dev/vda rw
33 22 254:0 /home/other /other rw - ext4 /dev/vda rw
34 22 0:40 /home/u/data /elsewhere rw - tmpfs none rw
short";
        let mounts: Vec<_> = text.split(|b| *b == b'\n').filter_map(parse).collect();
        assert_eq!(mounts.len(), 6);
        let names = other_names(Path::new("/home/u/data"), &mounts);
        let expected = ["/mnt/home/data", "/mnt/my data", "/keys"].map(PathBuf::from);
        assert_eq!(names, expected);
        let names = other_names(Path::new("/mnt/home/data"), &mounts);
        assert_eq!(names[0], Path::new("/home/u/data"), "{names:?}");
        assert_eq!(
            other_names(Path::new("/elsewhere"), &mounts),
            [""; 0].map(PathBuf::from)
        );
    }
}
