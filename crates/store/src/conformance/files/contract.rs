//! Semantics of reads, writes, lists and deletes.

use super::subject::{FileFixture, FileSystemRef};
use crate::conformance::check::{CheckOutcome, broken};

pub(super) async fn written_files_read_back_with_their_parents(
    store: FileSystemRef,
) -> CheckOutcome {
    let files = FileFixture::new(store);
    let written = files
        .store
        .write_file(files.session, "a/b/c.txt", "hello", "text");
    let written = written.await?;
    require_eq!(written.path, "/a/b/c.txt", "path of the written file");
    require_eq!(written.name, "c.txt", "name of the written file");
    require_eq!(written.size_bytes, 5, "size of the written file");
    require_eq!(
        written.session_id,
        files.session.uuid(),
        "session of the file"
    );
    require!(!written.is_readonly, "a new file is read-only");

    let Some(read) = files.store.read_file(files.session, "/a/b/c.txt").await? else {
        return broken("a written file is missing");
    };
    require_eq!(read.content.as_deref(), Some("hello"), "content");
    require_eq!(read.id, written.id, "id of a file that is read again");
    for parent in ["/a", "/a/b"] {
        let stat = files.store.stat_file(files.session, parent).await?;
        let is_directory = stat.is_some_and(|stat| stat.is_directory);
        require!(is_directory, "{parent} was not made for a file below it");
        let read = files.store.read_file(files.session, parent).await?;
        let is_directory = read.is_some_and(|read| read.is_directory && read.content.is_none());
        require!(is_directory, "{parent} does not read as a directory");
    }
    files.write("/a/b/c.txt", "new").await?;
    require_eq!(
        files.text("/a/b/c.txt").await?.as_deref(),
        Some("new"),
        "after writing again"
    );
    Ok(())
}

pub(super) async fn bytes_and_encoding_round_trip(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    for (path, content, encoding) in [
        ("/text", "grüße\r\nzwei", "text"),
        ("/empty", "", "text"),
        ("/binary", "AP8B", "base64"),
        ("/not_utf8", "//79", "base64"),
    ] {
        files
            .store
            .write_file(files.session, path, content, encoding)
            .await?;
        let Some(read) = files.store.read_file(files.session, path).await? else {
            return broken(format!("{path} is missing"));
        };
        require_eq!(read.content.as_deref(), Some(content), "content of {path}");
        require_eq!(read.encoding, encoding, "encoding of {path}");
    }
    Ok(())
}

pub(super) async fn missing_path_is_empty(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/file", "x").await?;
    for path in ["/missing", "/missing/below", "/file/below"] {
        let read = files.store.read_file(files.session, path).await?;
        require!(read.is_none(), "{path} reads as something");
        let stat = files.store.stat_file(files.session, path).await?;
        require!(stat.is_none(), "{path} has a stat");
        let listed = files.paths_in(path).await?;
        require!(listed.is_empty(), "{path} lists {listed:?}");
        require!(!files.delete(path).await?, "{path} was deleted");
    }
    Ok(())
}

pub(super) async fn root_is_a_directory(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    for root in ["/", "", "/workspace", "/workspace/"] {
        let read = files.store.read_file(files.session, root).await?;
        let is_root = read.is_some_and(|root| {
            root.is_directory && root.content.is_none() && root.path == "/" && root.name == "/"
        });
        require!(is_root, "{root:?} does not read as the directory /");
        let stat = files.store.stat_file(files.session, root).await?;
        let is_root = stat.is_some_and(|root| root.is_directory && root.path == "/");
        require!(is_root, "{root:?} has no stat of a directory");
        files.store.create_directory(files.session, root).await?;
    }
    Ok(())
}

pub(super) async fn listing_contains_direct_children_in_byte_order(
    store: FileSystemRef,
) -> CheckOutcome {
    let files = FileFixture::new(store);
    for path in ["/d/b", "/d/a/deep/er", "/d/a.txt", "/d/Z", "/d/ä", "/other"] {
        files.write(path, path).await?;
    }
    let expected = ["/d/Z", "/d/a", "/d/a.txt", "/d/b", "/d/ä"];
    require_eq!(files.paths_in("/d").await?, expected, "children of /d");
    require_eq!(
        files.paths_in("/").await?,
        ["/d", "/other"],
        "children of /"
    );
    let listed = files.store.list_directory(files.session, "/d").await?;
    for entry in listed {
        let stat = files.store.stat_file(files.session, &entry.path).await?;
        let agrees = stat.is_some_and(|stat| {
            (stat.name, stat.is_directory, stat.size_bytes)
                == (entry.name, entry.is_directory, entry.size_bytes)
        });
        require!(agrees, "listing and stat of {} differ", entry.path);
    }
    Ok(())
}

pub(super) async fn r59_missing_file_differs_from_empty_directory(
    store: FileSystemRef,
) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/file", "x").await?;
    let made = files
        .store
        .create_directory(files.session, "/dir/sub")
        .await?;
    require!(
        made.is_directory && made.path == "/dir/sub",
        "create_directory returned {made:?}"
    );
    files
        .store
        .create_directory(files.session, "/dir/sub")
        .await?;
    for (path, expected) in [
        ("/missing", None),
        ("/file", Some(false)),
        ("/dir/sub", Some(true)),
    ] {
        let stat = files.store.stat_file(files.session, path).await?;
        require_eq!(
            stat.map(|stat| stat.is_directory),
            expected,
            "stat of {path}"
        );
        let listed = files.paths_in(path).await?;
        require!(listed.is_empty(), "{path} lists {listed:?}");
    }
    Ok(())
}

pub(super) async fn delete_returns_whether_it_deleted(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/file", "x").await?;
    files.write("/dir/sub/file", "x").await?;
    files
        .store
        .create_directory(files.session, "/empty")
        .await?;
    require!(files.delete("/file").await?, "a file was not deleted");
    require!(
        !files.delete("/file").await?,
        "a deleted file was deleted again"
    );
    require!(
        files.delete("/empty").await?,
        "an empty directory was not deleted"
    );
    require!(
        !files.delete("/dir").await?,
        "a full directory was deleted without asking for it"
    );
    require_eq!(
        files.text("/dir/sub/file").await?.as_deref(),
        Some("x"),
        "file in it"
    );
    require!(
        files.delete_all("/dir").await?,
        "a full directory was not deleted"
    );
    require!(
        !files.delete_all("/dir").await?,
        "a deleted directory was deleted again"
    );
    require!(
        files.text("/dir/sub/file").await?.is_none(),
        "a file outlived its directory"
    );
    require!(
        files.paths_in("/").await?.is_empty(),
        "something is left in /"
    );
    Ok(())
}

pub(super) async fn conditional_write_requires_the_expected_content(
    store: FileSystemRef,
) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/f", "one").await?;
    files.store.create_directory(files.session, "/d").await?;
    require!(
        !files.replace("/f", "other", "two").await?,
        "other content was replaced"
    );
    for path in ["/missing", "/d", "/", "/f/below"] {
        require!(
            !files.replace(path, "", "two").await?,
            "{path} was replaced"
        );
    }
    require!(
        files.replace("/f", "one", "two").await?,
        "the expected content was not replaced"
    );
    require_eq!(
        files.text("/f").await?.as_deref(),
        Some("two"),
        "after replacing"
    );
    require!(
        files.text("/missing").await?.is_none(),
        "a missing file was made"
    );
    Ok(())
}
