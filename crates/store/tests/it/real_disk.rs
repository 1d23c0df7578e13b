//! Features of a directory of the host: links, permissions, ignored files, and other writers.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::error::AgentLoopError;
use windlass_core::traits::{SessionFileSystemFactory, SessionFileSystemFactoryContext};
use windlass_core::typed_id::SessionId;
use windlass_store::{RealDiskFileStore, RealDiskSessionFileSystemFactory};

use crate::support::{FileSystemRef, initial, text, write};

struct DiskFixture {
    root: TempDir,
    files: FileSystemRef,
    session: SessionId,
}

impl DiskFixture {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let files = Arc::new(RealDiskFileStore::new(root.path()).unwrap());
        Self {
            root,
            files,
            session: SessionId::new(),
        }
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path)
    }

    /// Returns the error of each operation on a path.
    async fn refusals(&self, path: &str) -> Vec<String> {
        let (files, session) = (&self.files, self.session);
        let seed = initial(path, "x", false);
        [
            files.read_file(session, path).await.err(),
            files.write_file(session, path, "x", "text").await.err(),
            files.delete_file(session, path, true).await.err(),
            files.list_directory(session, path).await.err(),
            files.stat_file(session, path).await.err(),
            files.create_directory(session, path).await.err(),
            files.seed_initial_file(session, &seed).await.err(),
            files
                .write_file_if_content_matches(session, path, "secret", "text", "x", "text")
                .await
                .err(),
        ]
        .into_iter()
        .map(|error| match error {
            Some(AgentLoopError::ToolExecution(text)) => text,
            other => panic!("{path} is not refused by a tool error: {other:?}"),
        })
        .collect()
    }
}

#[test]
fn the_root_must_be_an_existing_directory() {
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    for path in ["missing", "file"] {
        let error = RealDiskFileStore::new(root.path().join(path)).unwrap_err();
        assert!(matches!(error, AgentLoopError::Configuration(_)), "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
    let store = RealDiskFileStore::new(root.path()).unwrap();
    assert_eq!(store.root(), root.path());
}

#[tokio::test]
async fn factory_creates_a_store_of_its_root() {
    let disk = DiskFixture::new();
    disk.put("f", "x");
    let factory = RealDiskSessionFileSystemFactory::new(disk.root.path());
    let context = SessionFileSystemFactoryContext::new();
    let files = factory.create_session_file_system(context).await.unwrap();
    assert_eq!(text(&files, disk.session, "/f").await.unwrap(), "x");
    let missing = RealDiskSessionFileSystemFactory::new(disk.path("missing"));
    let context = SessionFileSystemFactoryContext::new();
    assert!(missing.create_session_file_system(context).await.is_err());
}

#[tokio::test]
async fn r57_grep_skips_git_and_ignored_files() {
    let disk = DiskFixture::new();
    for path in [
        ".git/config",
        "sub/.git/config",
        "included.txt",
        "debug.log",
        "logs/included.log",
        "out/made",
        "sub/out/made",
        "sub/only_here",
        "only_here",
        "sub/included.tmp",
        "other.tmp",
        ".hidden",
    ] {
        disk.put(path, "needle");
    }
    disk.put(
        ".gitignore",
        "*.log\n!logs/included.log\n/out/\n*.tmp\n[bad\n",
    );
    disk.put("sub/.gitignore", "only_here\n!included.tmp\n");
    assert_eq!(
        hits(&disk.files, disk.session, "needle").await,
        [
            "/.hidden",
            "/included.txt",
            "/logs/included.log",
            "/only_here",
            "/sub/included.tmp",
            "/sub/out/made",
        ]
    );
    // They are left out of searches only.
    let read = text(&disk.files, disk.session, "/.git/config").await;
    assert_eq!(read.unwrap(), "needle");
}

#[tokio::test]
async fn r61_link_anywhere_in_a_path_is_an_error() {
    let (disk, outside) = (DiskFixture::new(), TempDir::new().unwrap());
    fs::create_dir(outside.path().join("dir")).unwrap();
    fs::write(outside.path().join("dir/file"), "secret").unwrap();
    disk.put("inside/file", "secret");
    symlink(outside.path(), disk.path("out")).unwrap();
    symlink(outside.path().join("dir/file"), disk.path("file")).unwrap();
    symlink("inside", disk.path("in")).unwrap();
    symlink("nowhere", disk.path("dangling")).unwrap();
    symlink("/", disk.path("root")).unwrap();
    for (path, link) in [
        ("/out", "/out"),
        ("/out/dir", "/out"),
        ("/out/dir/file", "/out"),
        ("/out/new/file", "/out"),
        ("/file", "/file"),
        ("/in", "/in"),
        ("/in/file", "/in"),
        ("/dangling", "/dangling"),
        ("/root/etc/passwd", "/root"),
    ] {
        for refusal in disk.refusals(path).await {
            assert_eq!(refusal, format!("symbolic links are not followed: {link}"));
        }
    }
    assert_eq!(
        hits(&disk.files, disk.session, "secret").await,
        ["/inside/file"]
    );
    let listed = disk.files.list_directory(disk.session, "/").await.unwrap();
    assert_eq!(
        listed.len(),
        1,
        "only what can be reached is listed: {listed:?}"
    );
    let untouched = fs::read_to_string(outside.path().join("dir/file")).unwrap();
    assert_eq!(untouched, "secret");
}

#[tokio::test]
async fn r61_deleting_a_directory_deletes_links_and_not_where_they_lead() {
    let (disk, outside) = (DiskFixture::new(), TempDir::new().unwrap());
    fs::write(outside.path().join("file"), "secret").unwrap();
    disk.put("d/sub/file", "x");
    symlink(outside.path(), disk.path("d/sub/out")).unwrap();
    symlink(outside.path().join("file"), disk.path("d/file")).unwrap();
    assert!(
        disk.files
            .delete_file(disk.session, "/d", true)
            .await
            .unwrap()
    );
    assert!(!disk.path("d").exists());
    assert_eq!(
        fs::read_to_string(outside.path().join("file")).unwrap(),
        "secret"
    );
}

#[tokio::test]
async fn r61_the_permissions_of_the_host_are_honoured() {
    let disk = DiskFixture::new();
    disk.put("d/f", "included");
    fs::set_permissions(disk.path("d/f"), fs::Permissions::from_mode(0o444)).unwrap();
    let (files, session) = (&disk.files, disk.session);
    let stat = files.stat_file(session, "/d/f").await.unwrap().unwrap();
    assert!(stat.is_readonly);
    assert!(files.list_directory(session, "/d").await.unwrap()[0].is_readonly);
    write(files, session, "/d/f", "new").await.unwrap_err();
    let seed = initial("/d/f", "new", false);
    files.seed_initial_file(session, &seed).await.unwrap_err();
    files.delete_file(session, "/d/f", false).await.unwrap_err();
    files.delete_file(session, "/d", true).await.unwrap_err();
    assert_eq!(text(files, session, "/d/f").await.unwrap(), "included");
    fs::set_permissions(disk.path("d/f"), fs::Permissions::from_mode(0o644)).unwrap();
    write(files, session, "/d/f", "new").await.unwrap();
}

#[tokio::test]
async fn r53_read_only_mark_is_removed_with_a_file_deleted_by_another_program() {
    let disk = DiskFixture::new();
    let seed = initial("/d/f", "included", true);
    disk.files
        .seed_initial_file(disk.session, &seed)
        .await
        .unwrap();
    let clone = Arc::clone(&disk.files);
    write(&clone, SessionId::new(), "/d/f", "x")
        .await
        .unwrap_err();
    fs::remove_file(disk.path("d/f")).unwrap();
    write(&disk.files, disk.session, "/d/f", "free")
        .await
        .unwrap();
    write(&disk.files, disk.session, "/d/f", "again")
        .await
        .unwrap();
}

#[tokio::test]
async fn r53_marks_are_removed_with_their_directory() {
    let disk = DiskFixture::new();
    let (files, session) = (&disk.files, disk.session);
    let seed = initial("/d/f", "included", true);
    files.seed_initial_file(session, &seed).await.unwrap();
    fs::remove_file(disk.path("d/f")).unwrap();
    assert!(files.delete_file(session, "/d", true).await.unwrap());
    disk.put("d/f", "written by another program");
    write(files, session, "/d/f", "free").await.unwrap();
}

#[tokio::test]
async fn r60_write_retains_permissions_and_leaves_no_temporary_file() {
    let disk = DiskFixture::new();
    disk.put("tool.sh", "#!/bin/sh");
    fs::set_permissions(disk.path("tool.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    write(&disk.files, disk.session, "/tool.sh", "new")
        .await
        .unwrap();
    let mode = fs::metadata(disk.path("tool.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    let refused = write(&disk.files, disk.session, "/tool.sh/below", "x").await;
    refused.unwrap_err();
    assert_eq!(names(disk.root.path()), ["tool.sh"]);
}

#[tokio::test]
async fn r60_temporary_file_of_a_crash_is_hidden() {
    let disk = DiskFixture::new();
    disk.put("d/.windlass-tmp-0", "half needle");
    let (files, session) = (&disk.files, disk.session);
    assert!(
        files
            .list_directory(session, "/d")
            .await
            .unwrap()
            .is_empty()
    );
    assert!(hits(files, session, "needle").await.is_empty());
    write(files, session, "/d/.windlass-tmp-1", "x")
        .await
        .unwrap_err();
    assert!(files.delete_file(session, "/d", true).await.unwrap());
}

#[tokio::test]
async fn bytes_determine_the_encoding() {
    let disk = DiskFixture::new();
    disk.put("nul", b"a\0b");
    disk.put("latin1", b"gr\xfc\xdfe");
    disk.put("text", "grüße");
    for (path, encoding, size) in [
        ("/nul", "base64", 3),
        ("/latin1", "base64", 5),
        ("/text", "text", 7),
    ] {
        let file = disk
            .files
            .read_file(disk.session, path)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (&*file.encoding, file.size_bytes),
            (encoding, size),
            "{path}"
        );
    }
}

#[tokio::test]
async fn pipes_are_refused_without_waiting_for_their_other_end() {
    let disk = DiskFixture::new();
    let pipe = disk.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    for refusal in disk.refusals("/pipe").await {
        assert_eq!(refusal, "neither a regular file nor a directory: /pipe");
    }
    assert!(hits(&disk.files, disk.session, ".").await.is_empty());
}

#[tokio::test]
async fn non_utf8_names_are_ignored() {
    use std::os::unix::ffi::OsStrExt;
    let disk = DiskFixture::new();
    let name = std::ffi::OsStr::from_bytes(b"not\xfftext");
    fs::create_dir(disk.path("d")).unwrap();
    fs::write(disk.path("d").join(name), "needle").unwrap();
    let listed = disk.files.list_directory(disk.session, "/d").await.unwrap();
    assert!(listed.is_empty());
    assert!(hits(&disk.files, disk.session, "needle").await.is_empty());
    assert!(
        !disk
            .files
            .delete_file(disk.session, "/d", false)
            .await
            .unwrap()
    );
    assert!(
        disk.files
            .delete_file(disk.session, "/d", true)
            .await
            .unwrap()
    );
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect();
    names.sort();
    names
}

async fn hits(files: &FileSystemRef, session: SessionId, pattern: &str) -> Vec<String> {
    let hits = files.grep_files(session, pattern, None).await.unwrap();
    hits.into_iter().map(|hit| hit.path).collect()
}
