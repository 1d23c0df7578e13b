//! What of the user's home an agent sees because its programs are there.

use std::path::{Path, PathBuf};

use super::home::SHARED;

/// Returns what is seen of a home for the programs of a `PATH` and for the agent's own; links resolved. Nothing that is hidden as a key is
/// seen whole.
pub(super) fn seen(home: &Path, keys: &[PathBuf], path: &str, program: &Path) -> Vec<PathBuf> {
    let places: Vec<_> = std::env::split_paths(path)
        .filter(|place| place.is_absolute())
        .collect();
    let mut seen = Vec::new();
    let mut see = |found: Option<PathBuf>, alone: PathBuf| {
        let is_key = |path: &Path| keys.iter().any(|key| path.starts_with(key));
        let found = found.filter(|found| !is_key(found)).unwrap_or(alone);
        let is_inside = found.starts_with(home) && found != home;
        if is_inside && !keys.contains(&found) && !seen.contains(&found) {
            seen.push(found);
        }
    };
    for place in places.iter().filter_map(|place| place.canonicalize().ok()) {
        see(tool_directory(home, &place), place);
    }
    // What is absolute stays so when it is joined.
    let named = places.iter().map(|place| place.join(program));
    let named = [program.to_owned()].into_iter().chain(named);
    let mut named = named.filter(|path| path.is_absolute() && path.is_file());
    if let Some(found) = named.next() {
        // Programs are often links into another directory.
        let real = found.canonicalize().ok();
        for program in [Some(found), real].into_iter().flatten() {
            see(around(home, &program), program);
        }
    }
    seen
}

/// Returns the directory of a tool that keeps all it needs together: of `~/.nvm/versions/node/v22/bin` it is `~/.nvm`.
fn tool_directory(home: &Path, path: &Path) -> Option<PathBuf> {
    let first = path.strip_prefix(home).ok()?.components().next()?;
    let first = first.as_os_str();
    let is_own = first.to_string_lossy().starts_with('.') && !SHARED.iter().any(|it| first == *it);
    is_own.then(|| home.join(first))
}

/// Returns what lies around a program that it may need: its package, the directory above `bin`, or the one that it is in.
fn around(home: &Path, program: &Path) -> Option<PathBuf> {
    let is_own = |path: &Path| {
        let inside = path.strip_prefix(home);
        inside.is_ok_and(|inside| {
            let is_shared = SHARED.iter().any(|it| inside == Path::new(it));
            !inside.as_os_str().is_empty() && !is_shared
        })
    };
    let above = |path: &Path| path.parent().map(Path::to_owned);
    let packages = program
        .ancestors()
        .filter(|it| it.ends_with("node_modules"));
    let packages = packages.last().map(Path::to_owned);
    let directory = above(program);
    let prefix = directory.as_deref().filter(|it| it.ends_with("bin"));
    let prefix = prefix.and_then(above);
    let candidates = [packages, tool_directory(home, program), prefix, directory];
    candidates.into_iter().flatten().find(|path| is_own(path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn programs_are_seen_with_what_they_need_and_nothing_beside() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let at = |path: &str| home.join(path);
        for program in [
            ".nvm/v22/bin/node",
            ".nvm/v22/lib/node_modules/agent/cli.js",
            ".local/share/agent/versions/1",
            ".claude/local/claude",
            "go/bin/tool",
            "venv/bin/agent",
        ] {
            fs::create_dir_all(at(program).parent().unwrap()).unwrap();
            fs::write(at(program), "").unwrap();
        }
        fs::create_dir_all(at(".local/bin")).unwrap();
        symlink("../share/agent/versions/1", at(".local/bin/agent")).unwrap();
        let keys = [at(".claude"), at(".ssh")];
        let check = |path: &[&str], program: &Path, expected: &[&str]| {
            let path = std::env::join_paths(path.iter().map(|path| at(path))).unwrap();
            let path = path.into_string().unwrap();
            let expected: Vec<_> = expected.iter().map(|path| at(path)).collect();
            assert_eq!(seen(&home, &keys, &path, program), expected, "{path}");
        };
        let none = Path::new("none");
        check(&[".nvm/v22/bin"], none, &[".nvm"]);
        check(&["go/bin", "", "/usr/bin"], none, &["go/bin"]);
        // What is shared is not seen, but for what the link of the program leads to.
        check(
            &[".local/bin"],
            Path::new("agent"),
            &[".local/bin", ".local/share/agent/versions"],
        );
        // Keys are not seen, but for the programs that are kept among them.
        check(&[".claude/local"], none, &[".claude/local"]);
        check(&[".ssh"], none, &[]);
        check(&[], &at("venv/bin/agent"), &["venv"]);
    }
}
