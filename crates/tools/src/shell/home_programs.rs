//! The parts of the user's home that contain programs.

use std::path::{Path, PathBuf};

/// Directories of a home that many programs share, so that none belongs to a single program.
pub const SHARED_HOME_DIRECTORIES: [&str; 6] = [
    ".cache",
    ".config",
    ".local",
    ".local/share",
    ".local/state",
    "Library",
];

/// Toolchains: prefixes of directories in `PATH`, with the directories of the home that their programs need. They contain only programs and
/// libraries. This is an allowlist, so that unknown tools stay hidden.
const TOOLCHAINS: &[(&str, &[&str])] = &[
    (".asdf", &[".asdf"]),
    (".bun", &[".bun/bin", ".bun/install/global"]),
    (".cargo/bin", &[".rustup"]),
    (".ghcup", &[".ghcup"]),
    (".local/bin", &[".local/share/pipx", ".local/share/uv"]),
    (".local/share/mise", &[".local/share/mise"]),
    (".nodenv", &[".nodenv"]),
    (".nvm", &[".nvm"]),
    (".opam", &[".opam"]),
    (".pyenv", &[".pyenv"]),
    (".rbenv", &[".rbenv"]),
    (".rustup", &[".rustup"]),
    (".sdkman", &[".sdkman/candidates"]),
    (".volta", &[".volta"]),
];

/// Directories next to `bin` that belong to its programs.
const NEXT_TO_BIN: [&str; 4] = ["include", "lib", "lib64", "libexec"];

/// Returns the parts of a home that programs in the directories of a `PATH` need, with links resolved.
pub(super) fn paths_of_path_variable(home: &Path, path: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let directories =
        std::env::split_paths(path).filter_map(|directory| directory.canonicalize().ok());
    for directory in directories {
        let Some(inside) = inside(home, &directory) else {
            continue;
        };
        let toolchains = TOOLCHAINS.iter();
        let needed = toolchains.filter(|(start, _)| inside.starts_with(start));
        found.extend(needed.flat_map(|(_, needed)| needed.iter().map(|path| home.join(path))));
        if let (true, Some(above)) = (directory.ends_with("bin"), directory.parent()) {
            found.extend(NEXT_TO_BIN.map(|name| above.join(name)));
        }
        found.push(directory);
    }
    let real = |path: PathBuf| {
        let real = path.canonicalize().ok();
        real.filter(|real| inside(home, real).is_some())
    };
    let mut found: Vec<_> = found.into_iter().filter_map(real).collect();
    found.sort();
    // Paths sort after the directory that contains them.
    found.dedup_by(|path, above| path.starts_with(above));
    found
}

/// Returns the parts of a home that one program needs, given by path or looked up in a `PATH`; links resolved. In a directory that is hidden for
/// keys, only the program itself is opened.
pub(super) fn paths_of_program(
    home: &Path,
    keys: &[PathBuf],
    path: &str,
    program: &Path,
) -> Vec<PathBuf> {
    // An absolute path is not changed by `join`.
    let found = std::env::split_paths(path)
        .map(|directory| directory.join(program))
        .find(|path| path.is_absolute() && path.is_file());
    let Some(found) = found else {
        return Vec::new();
    };
    let is_key = |path: &Path| keys.iter().any(|key| path.starts_with(key));
    // Programs are often links into another directory.
    let real = found.canonicalize().ok();
    let mut needed = Vec::new();
    for program in [Some(found), real].into_iter().flatten() {
        let directory = directory_of(home, &program).filter(|path| !is_key(path));
        let needs = directory.unwrap_or(program);
        if inside(home, &needs).is_some() && !keys.contains(&needs) && !needed.contains(&needs) {
            needed.push(needs);
        }
    }
    needed
}

/// Returns a path relative to the home, if it is inside it.
fn inside<'a>(home: &Path, path: &'a Path) -> Option<&'a Path> {
    let inside = path.strip_prefix(home).ok();
    inside.filter(|inside| !inside.as_os_str().is_empty())
}

/// Returns the directory that a program may need: its package, its tool's directory, the parent of `bin`, or its own directory.
fn directory_of(home: &Path, program: &Path) -> Option<PathBuf> {
    let is_own = |path: &Path| {
        inside(home, path).is_some_and(|inside| {
            !SHARED_HOME_DIRECTORIES
                .iter()
                .any(|it| inside == Path::new(it))
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

/// Returns the directory of a self-contained tool: for `~/.nvm/versions/node/v22/bin` it is `~/.nvm`.
fn tool_directory(home: &Path, path: &Path) -> Option<PathBuf> {
    let first = inside(home, path)?.components().next()?.as_os_str();
    let mut shared = SHARED_HOME_DIRECTORIES.iter();
    let is_own = first.to_string_lossy().starts_with('.') && !shared.any(|it| first == *it);
    is_own.then(|| home.join(first))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn home() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        for program in [
            ".cargo/bin/cargo",
            ".cargo/credentials.toml",
            ".claude/local/claude",
            ".fly/bin/fly",
            ".fly/config.yml",
            ".local/lib/python3/x",
            ".local/share/agent/versions/1",
            ".local/share/keyrings/login",
            ".nvm/v22/bin/node",
            ".nvm/v22/lib/node_modules/agent/cli.js",
            ".rustup/settings.toml",
            "go/bin/tool",
            "venv/bin/agent",
            "venv/lib/x",
        ] {
            fs::create_dir_all(home.join(program).parent().unwrap()).unwrap();
            fs::write(home.join(program), "").unwrap();
        }
        fs::create_dir_all(home.join(".local/bin")).unwrap();
        symlink("../share/agent/versions/1", home.join(".local/bin/agent")).unwrap();
        (directory, home)
    }

    #[test]
    fn path_directories_are_opened_with_their_libraries_and_toolchains() {
        let (_directory, home) = home();
        let check = |path: &str, expected: &[&str]| {
            let expected: Vec<_> = expected.iter().map(|path| home.join(path)).collect();
            let named = format!("/usr/bin::relative:{}", home.join(path).display());
            assert_eq!(paths_of_path_variable(&home, &named), expected, "{path}");
        };
        check(".nvm/v22/bin", &[".nvm"]);
        check(".cargo/bin", &[".cargo/bin", ".rustup"]);
        check(".fly/bin", &[".fly/bin"]);
        check(".local/bin", &[".local/bin", ".local/lib"]);
        check("go/bin", &["go/bin"]);
        check("venv/bin", &["venv/bin", "venv/lib"]);
        check("missing", &[]);
        check("", &[]);
    }

    #[test]
    fn program_is_opened_with_only_its_needs() {
        let (_directory, home) = home();
        let at = |path: &str| home.join(path);
        let keys = [at(".claude"), at(".ssh")];
        let check = |path: &str, program: &Path, expected: &[&str]| {
            let expected: Vec<_> = expected.iter().map(|path| at(path)).collect();
            let path = at(path).display().to_string();
            assert_eq!(
                paths_of_program(&home, &keys, &path, program),
                expected,
                "{path}"
            );
        };
        check(".nvm/v22/bin", Path::new("none"), &[]);
        check(".nvm/v22/bin", Path::new("node"), &[".nvm"]);
        // Shared directories are not visible, except for the target of the program's link.
        check(
            ".local/bin",
            Path::new("agent"),
            &[".local/bin", ".local/share/agent/versions"],
        );
        // Directories with keys are not visible, except for a program in them.
        let claude = &[".claude/local/claude"];
        check(".claude/local", Path::new("claude"), claude);
        check("none", &at("venv/bin/agent"), &["venv"]);
    }
}
