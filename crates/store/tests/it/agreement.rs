//! Any sequence of operations has the same answers in memory and on disk.

use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use windlass_core::error::Result;
use windlass_core::session_file::{FileInfo, InitialFile, SessionFile};
use windlass_core::typed_id::SessionId;
use windlass_store::{InMemorySessionFileStore, RealDiskFileStore};

use crate::support::FileSystemRef;

#[derive(Debug, Clone)]
enum FileOperation {
    Read(&'static str),
    Write(&'static str, Content),
    Seed(&'static str, Content, bool),
    Replace(&'static str, Content, Content),
    Delete(&'static str, bool),
    Make(&'static str),
    List(&'static str),
    Stat(&'static str),
    Grep(&'static str, Option<&'static str>),
}

type Content = (&'static str, &'static str);

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "/",
        "/a",
        "/a/b",
        "/a/b/c",
        "/a.b",
        "/a-/x",
        "a//b/",
        "/b",
        "/workspace/b/a",
        "/b/../a",
        "/B",
    ])
}

/// Text, binary bytes, base64 of text, and invalid content.
fn content() -> impl Strategy<Value = Content> {
    prop::sample::select(vec![
        ("", "text"),
        ("one", "text"),
        ("one\r\ntwo\n", "text"),
        ("AP8=", "base64"),
        ("b25l", "base64"),
        ("%", "base64"),
        ("one", "other"),
    ])
}

fn operation() -> impl Strategy<Value = FileOperation> {
    use FileOperation::{Delete, Grep, List, Make, Read, Replace, Seed, Stat, Write};
    let pattern = prop::sample::select(vec!["o", "^t", "e$", "^$", "b25", "", "("]);
    let part = prop::sample::select(vec![None, Some("/a"), Some("b")]);
    prop_oneof![
        2 => path().prop_map(Read),
        5 => (path(), content()).prop_map(|(path, content)| Write(path, content)),
        1 => (path(), content(), any::<bool>()).prop_map(|(path, content, ro)| Seed(path, content, ro)),
        3 => (path(), content(), content()).prop_map(|(path, old, new)| Replace(path, old, new)),
        3 => (path(), any::<bool>()).prop_map(|(path, recursive)| Delete(path, recursive)),
        2 => path().prop_map(Make),
        2 => path().prop_map(List),
        2 => path().prop_map(Stat),
        2 => (pattern, part).prop_map(|(pattern, part)| Grep(pattern, part)),
    ]
}

/// Runs an operation and formats its result without IDs and times. Content is formatted as bytes, because a disk cannot know its original encoding.
async fn answer(files: &FileSystemRef, session: SessionId, operation: &FileOperation) -> String {
    match operation {
        FileOperation::Read(path) => {
            spell(files.read_file(session, path).await, |file| file.map(bytes))
        }
        FileOperation::Write(path, (content, encoding)) => spell(
            files.write_file(session, path, content, encoding).await,
            bytes,
        ),
        FileOperation::Seed(path, (content, encoding), is_readonly) => {
            let file = InitialFile {
                path: (*path).to_owned(),
                content: (*content).to_owned(),
                encoding: (*encoding).to_owned(),
                is_readonly: *is_readonly,
            };
            spell(files.seed_initial_file(session, &file).await, |()| ())
        }
        FileOperation::Replace(path, (old, old_encoding), (new, encoding)) => {
            let replaced = files
                .write_file_if_content_matches(session, path, old, old_encoding, new, encoding)
                .await;
            spell(replaced, |file| file.map(bytes))
        }
        FileOperation::Delete(path, recursive) => {
            spell(files.delete_file(session, path, *recursive).await, |it| it)
        }
        FileOperation::Make(path) => spell(files.create_directory(session, path).await, entry),
        FileOperation::List(path) => spell(files.list_directory(session, path).await, |entries| {
            entries.into_iter().map(entry).collect::<Vec<_>>()
        }),
        FileOperation::Stat(path) => spell(files.stat_file(session, path).await, |stat| {
            stat.map(|s| (s.path, s.name, s.is_directory, s.is_readonly, s.size_bytes))
        }),
        FileOperation::Grep(pattern, part) => {
            spell(files.grep_files(session, pattern, *part).await, |hits| {
                let hit = |h: windlass_core::GrepMatch| (h.path, h.line_number, h.line);
                hits.into_iter().map(hit).collect::<Vec<_>>()
            })
        }
    }
}

fn spell<T, S: std::fmt::Debug>(result: Result<T>, show: impl FnOnce(T) -> S) -> String {
    match result {
        Ok(value) => format!("{:?}", show(value)),
        Err(error) => format!("refused: {error}"),
    }
}

fn bytes(file: SessionFile) -> (String, String, bool, bool, i64, Option<Vec<u8>>) {
    let content = file
        .content
        .map(|content| SessionFile::decode_content(&content, &file.encoding).unwrap());
    let (is_directory, is_readonly) = (file.is_directory, file.is_readonly);
    (
        file.path,
        file.name,
        is_directory,
        is_readonly,
        file.size_bytes,
        content,
    )
}

fn entry(info: FileInfo) -> (String, String, bool, bool, i64) {
    (
        info.path,
        info.name,
        info.is_directory,
        info.is_readonly,
        info.size_bytes,
    )
}

/// Lists all that is there, so that two trees can be compared.
async fn everything(files: &FileSystemRef, session: SessionId) -> Vec<String> {
    let mut open = vec!["/".to_owned()];
    let mut all = Vec::new();
    while let Some(path) = open.pop() {
        for info in files.list_directory(session, &path).await.unwrap() {
            if info.is_directory {
                open.push(info.path.clone());
            }
            all.push(format!("{:?}", entry(info)));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memory_and_disk_agree(operations in prop::collection::vec(operation(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let root = TempDir::new().unwrap();
            let memory: FileSystemRef = Arc::new(InMemorySessionFileStore::new());
            let disk: FileSystemRef = Arc::new(RealDiskFileStore::new(root.path()).unwrap());
            let session = SessionId::new();
            for operation in &operations {
                let in_memory = answer(&memory, session, operation).await;
                let on_disk = answer(&disk, session, operation).await;
                prop_assert_eq!(in_memory, on_disk, "{:?}", operation);
            }
            prop_assert_eq!(everything(&memory, session).await, everything(&disk, session).await);
            Ok(())
        })?;
    }
}
