//! The directories of the test: a root for hostile sessions, one for honest sessions, and the paths outside both.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_tools::{Environment, Environments, Policy};

/// Files outside both roots, by path: their type and content.
pub(super) type Outside = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub(super) struct TrialDirectories {
    directory: TempDir,
}

impl TrialDirectories {
    pub(super) fn new() -> std::io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("windlass-hostile-")
            .tempdir()?;
        let directories = Self { directory };
        for name in ["hostile", "honest", "outside/data", "store"] {
            fs::create_dir_all(directories.at(name))?;
        }
        fs::write(directories.at("outside/secret"), "a secret")?;
        fs::write(directories.at("outside/data/secrets.key"), "a key")?;
        symlink(directories.at("outside"), directories.at("hostile/link"))?;
        Ok(directories)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Two environments; the directory of the store is hidden from both.
    pub(super) fn environments(&self) -> Result<Environments, String> {
        let open = |name: &str| {
            let open = Environment::new(name, self.at(name), Policy::default());
            open.map_err(|error| error.to_string())
        };
        let environments = Environments::with_default(open("hostile")?);
        environments.put(open("honest")?);
        environments.hide(self.at("outside/data"));
        environments.hide(self.at("store"));
        Ok(environments)
    }

    /// Reads everything outside the roots and the store.
    pub(super) fn outside(&self) -> std::io::Result<Outside> {
        let mut found = Outside::new();
        for entry in fs::read_dir(self.directory.path())? {
            let entry = entry?;
            match entry.file_name().to_str() {
                Some("hostile" | "honest" | "store") => {
                    let metadata = entry.metadata()?;
                    found.insert(entry.path(), (metadata.mode() & 0o170_000, Vec::new()));
                }
                _ => collect(&entry.path(), &mut found)?,
            }
        }
        Ok(found)
    }
}

fn collect(path: &Path, found: &mut Outside) -> std::io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let content = if metadata.is_file() {
        fs::read(path)?
    } else {
        Vec::new()
    };
    // Landlock cannot restrict chmod, a documented limitation, so only the file type is compared.
    found.insert(path.to_owned(), (metadata.mode() & 0o170_000, content));
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), found)?;
        }
    }
    Ok(())
}
