//! Small JSON files of the data directory that several processes change: under a lock, and replaced as a whole.
//!
//! Such a file grants rights, so it is in one of three states: present, absent, or unknown. A file that cannot be read,
//! cannot be parsed or could have been written by another user is unknown. It never counts as absent or empty.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The content of a file.
pub trait JsonContents: Serialize + DeserializeOwned + Default {
    /// The version that this program reads and writes.
    const VERSION: u32;
    /// The plural noun for the content in messages, such as `tokens`.
    const WHAT: &'static str;
    /// Permission bits that make the file unusable. By default other users must not be able to write it.
    const FORBIDDEN_MODE: u32 = 0o022;

    /// Returns the version in the file.
    fn version(&self) -> u32;
}

/// Why a file cannot be used. The file is left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum JsonFileError {
    /// A system call failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// Another user can have written it.
    #[error(
        "{0} belongs to uid {owner} and has the mode {mode:o}, so other users can reach it; check its content, then run \
         `chown {user} {0}` and `chmod 600 {0}`",
        path.display()
    )]
    Untrusted {
        /// Path of the file.
        path: PathBuf,
        /// User ID of its owner.
        owner: u32,
        /// Its permission bits.
        mode: u32,
        /// User ID of this process.
        user: u32,
    },
    /// The content is invalid.
    #[error("{} does not contain {what} that this program can read: {why}; it was left as it is", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The expected content.
        what: &'static str,
        /// Why it is invalid.
        why: String,
    },
}

/// The state of a file.
#[derive(Debug)]
pub enum FileState<T> {
    /// The file exists and is valid.
    Present(T),
    /// The file does not exist.
    Absent,
    /// The file exists, but its content is unknown. It grants nothing, and revokes nothing permanently.
    Unknown(JsonFileError),
}

/// A file of a data directory. Readers see changes of other processes immediately.
#[derive(Debug)]
pub struct JsonFile<T> {
    path: PathBuf,
    cache: RwLock<Option<Cached<T>>>,
}

#[derive(Debug)]
struct Cached<T> {
    version: FileVersion,
    state: Arc<FileState<T>>,
}

/// Identifies one version of a file; every replacement changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileVersion {
    Absent,
    File {
        inode: u64,
        modified: (i64, i64),
        changed: (i64, i64),
        length: u64,
    },
    /// An unreadable file may be readable the next time. The error was logged.
    Unknown(String),
}

impl FileVersion {
    fn read(path: &Path) -> Option<Self> {
        match fs::symlink_metadata(path) {
            Ok(file) => Some(Self::File {
                inode: file.ino(),
                modified: (file.mtime(), file.mtime_nsec()),
                changed: (file.ctime(), file.ctime_nsec()),
                length: file.len(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Self::Absent),
            Err(_) => None,
        }
    }
}

impl<T: JsonContents> JsonFile<T> {
    /// Uses a file, whose directory must exist. Its lock is next to it, with the extension `lock`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            cache: RwLock::new(None),
        }
    }

    /// Reads the file.
    #[must_use]
    pub fn read(&self) -> FileState<T> {
        match self.try_read() {
            Ok(Some(contents)) => FileState::Present(contents),
            Ok(None) => FileState::Absent,
            Err(error) => FileState::Unknown(error),
        }
    }

    /// Returns the content, reading the file only if it has changed. An error is logged once.
    #[must_use]
    pub fn current(&self) -> Arc<FileState<T>> {
        let version = FileVersion::read(&self.path);
        let cache = self.cache.read();
        if let Some(cached) = cache.as_ref()
            && Some(&cached.version) == version.as_ref()
        {
            return Arc::clone(&cached.state);
        }
        let before = cache.as_ref().map(|cached| cached.version.clone());
        drop(cache);
        let state = Arc::new(self.read());
        let version = match (&*state, version) {
            (FileState::Unknown(error), _) => FileVersion::Unknown(error.to_string()),
            (_, Some(version)) => version,
            (_, None) => return state,
        };
        if let FileVersion::Unknown(error) = &version
            && before.as_ref() != Some(&version)
        {
            tracing::error!(error, "{} are unknown and grant nothing", T::WHAT);
        }
        *self.cache.write() = Some(Cached {
            version,
            state: Arc::clone(&state),
        });
        state
    }

    /// Changes the content under the lock, durably. A file that is unknown is left as it is.
    ///
    /// # Errors
    /// If the file cannot be locked, read or replaced.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> Result<R, JsonFileError> {
        let lock = self.path.with_extension("lock");
        let file = open_private(&lock).map_err(|source| cannot("open", &lock, source))?;
        file.lock()
            .map_err(|source| cannot("lock", &lock, source))?;
        let mut contents = self.try_read()?.unwrap_or_default();
        let result = change(&mut contents);
        let written = serde_json::to_vec_pretty(&contents)
            .map_err(io::Error::other)
            .and_then(|contents| replace(&self.path, &contents));
        written.map_err(|source| cannot("write", &self.path, source))?;
        Ok(result)
    }

    /// Returns the content; `None` if there is no file.
    ///
    /// # Errors
    /// If the content is unknown.
    pub fn try_read(&self) -> Result<Option<T>, JsonFileError> {
        let path = &self.path;
        // Do not follow a link or block on a pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(cannot("read", path, error.into())),
        };
        let unreadable = |why: String| JsonFileError::Unreadable {
            path: path.clone(),
            what: T::WHAT,
            why,
        };
        let metadata = file
            .metadata()
            .map_err(|source| cannot("read", path, source))?;
        let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
        if !metadata.is_file() {
            return Err(unreadable("it is not a regular file".to_owned()));
        }
        if (owner != user && owner != 0) || metadata.mode() & T::FORBIDDEN_MODE != 0 {
            return Err(JsonFileError::Untrusted {
                path: path.clone(),
                owner,
                mode: metadata.mode() & 0o777,
                user,
            });
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| cannot("read", path, source))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(unreadable(format!("it has more than {MAX_BYTES} bytes")));
        }
        let contents: T =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        match contents.version() {
            version if version == T::VERSION => Ok(Some(contents)),
            version => Err(unreadable(format!("it has version {version}"))),
        }
    }
}

fn cannot(doing: &'static str, path: &Path, source: io::Error) -> JsonFileError {
    JsonFileError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Opens a file that only its owner can read, and creates it if it is missing.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// Replaces a file as a whole, durably.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(format!("new-{}", Uuid::new_v4().simple()));
    let written = open_private(&fresh).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct NameList {
        version: u32,
        names: Vec<String>,
    }

    impl Default for NameList {
        fn default() -> Self {
            Self {
                version: Self::VERSION,
                names: Vec::new(),
            }
        }
    }

    impl JsonContents for NameList {
        const VERSION: u32 = 1;
        const WHAT: &'static str = "names";

        fn version(&self) -> u32 {
            self.version
        }
    }

    fn names(file: &JsonFile<NameList>) -> Option<Vec<String>> {
        match &*file.current() {
            FileState::Present(names) => Some(names.names.clone()),
            FileState::Absent => Some(Vec::new()),
            FileState::Unknown(_) => None,
        }
    }

    #[test]
    fn unusable_file_is_unknown_until_it_is_repaired() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("names.json");
        let file: JsonFile<NameList> = JsonFile::new(path.clone());
        assert!(matches!(file.read(), FileState::Absent));
        file.update(|names| names.names.push("a".to_owned()))
            .unwrap();
        assert_eq!(names(&file), Some(vec!["a".to_owned()]));
        let good = fs::read(&path).unwrap();
        let spoilt: [&dyn Fn(); 5] = [
            &|| fs::write(&path, "{").unwrap(),
            &|| fs::write(&path, r#"{"version": 2, "names": []}"#).unwrap(),
            &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap(),
            &|| {
                fs::remove_file(&path).unwrap();
                symlink("/dev/null", &path).unwrap();
            },
            &|| {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            },
        ];
        for spoil in spoilt {
            spoil();
            assert_eq!(names(&file), None);
            assert!(file.update(|names| names.names.clear()).is_err());
            if path.is_dir() {
                fs::remove_dir(&path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            replace(&path, &good).unwrap();
            assert_eq!(names(&file), Some(vec!["a".to_owned()]));
        }
    }

    #[test]
    fn unsearchable_directory_is_unknown_and_not_absent() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        let below: JsonFile<NameList> = JsonFile::new(directory.path().join("file/names.json"));
        assert!(matches!(below.read(), FileState::Unknown(_)));
        assert_eq!(names(&below), None);
    }
}
