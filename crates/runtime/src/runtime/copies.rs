//! The data that a fork copies in addition to the conversation.

use windlass_core::error::Result;
use windlass_core::session_file::InitialFile;
use windlass_core::traits::{SessionFileSystem, SessionStorageStore};
use windlass_core::typed_id::SessionId;

/// Copies all files and directories. A new session that already has files uses a shared file system.
pub(super) async fn copy_files(
    files: &dyn SessionFileSystem,
    from: SessionId,
    to: SessionId,
) -> Result<()> {
    if !files.list_directory(to, "/").await?.is_empty() {
        return Ok(());
    }
    let mut open = vec!["/".to_owned()];
    while let Some(directory) = open.pop() {
        for entry in files.list_directory(from, &directory).await? {
            if entry.is_directory {
                files.create_directory(to, &entry.path).await?;
                open.push(entry.path);
            } else {
                copy_file(files, from, to, &entry.path).await?;
            }
        }
    }
    Ok(())
}

/// Copies one file unless it was deleted in the meantime. It is written with the host's rights, because the copy needs no approval.
async fn copy_file(
    files: &dyn SessionFileSystem,
    from: SessionId,
    to: SessionId,
    path: &str,
) -> Result<()> {
    let Some(file) = files.read_file(from, path).await? else {
        return Ok(());
    };
    let copy = InitialFile {
        path: file.path,
        content: file.content.unwrap_or_default(),
        encoding: file.encoding,
        is_readonly: file.is_readonly,
    };
    files.seed_initial_file(to, &copy).await
}

/// Copies all values, but no secrets.
pub(super) async fn copy_values(
    storage: &dyn SessionStorageStore,
    from: SessionId,
    to: SessionId,
) -> Result<()> {
    for key in storage.list_keys(from).await? {
        if let Some(value) = storage.get_value(from, &key.key).await? {
            storage.set_value(to, &key.key, &value).await?;
        }
    }
    Ok(())
}
