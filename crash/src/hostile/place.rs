//! The directories of the test: a root for hostile sessions, one for honest sessions, and the paths outside both.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_tools::{Environment, Environments, Policy};

/// Files outside both roots, by path: their type and content.
pub(super) type Outside = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub(super) struct Place {
    directory: TempDir,
}

impl Place {
    pub(super) fn new() -> std::io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("windlass-hostile-")
            .tempdir()?;
        let place = Self { directory };
        for name in ["hostile", "honest", "outside/data", "store"] {
            fs::create_dir_all(place.at(name))?;
        }
        fs::write(place.at("outside/secret"), "a secret")?;
        fs::write(place.at("outside/data/secrets.key"), "a key")?;
        symlink(place.at("outside"), place.at("hostile/link"))?;
        Ok(place)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Two environments; the directory of the store is hidden from both.
    pub(super) fn environments(&self) -> Result<Environments, String> {
        let opened = |name: &str| {
            let opened = Environment::new(name, self.at(name), Policy::default());
            opened.map_err(|error| error.to_string())
        };
        let environments = Environments::with_default(opened("hostile")?);
        environments.put(opened("honest")?);
        environments.hide(self.at("outside/data"));
        environments.hide(self.at("store"));
        Ok(environments)
    }

    /// Looks at everything outside of the roots and of the store.
    pub(super) fn outside(&self) -> std::io::Result<Outside> {
        let mut found = Outside::new();
        for entry in fs::read_dir(self.directory.path())? {
            let entry = entry?;
            match entry.file_name().to_str() {
                Some("hostile" | "honest" | "store") => {
                    let there = entry.metadata()?;
                    found.insert(entry.path(), (there.mode() & 0o170_000, Vec::new()));
                }
                _ => look(&entry.path(), &mut found)?,
            }
        }
        Ok(found)
    }
}

fn look(path: &Path, found: &mut Outside) -> std::io::Result<()> {
    let there = fs::symlink_metadata(path)?;
    let holds = if there.is_file() {
        fs::read(path)?
    } else {
        Vec::new()
    };
    // Landlock cannot restrict chmod, a documented limitation, so only the file type is compared.
    found.insert(path.to_owned(), (there.mode() & 0o170_000, holds));
    if there.is_dir() {
        for entry in fs::read_dir(path)? {
            look(&entry?.path(), found)?;
        }
    }
    Ok(())
}
