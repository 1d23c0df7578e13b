//! Files that the host made read-only.

use super::subject::{FileFixture, FileSystemRef, refused};
use crate::conformance::check::CheckOutcome;

pub(super) async fn read_only_files_cannot_be_written(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.seed("/r/f", "original", true).await?;
    let why = "file is read-only: /r/f";
    for path in ["/r/f", "r/f", "/workspace/r//f"] {
        refused(
            files.write(path, "new").await,
            &format!("writing {path}"),
            why,
        )?;
        refused(
            files.replace(path, "original", "new").await,
            &format!("replacing {path}"),
            why,
        )?;
    }
    let other = files.replace("/r/f", "other", "new").await?;
    require!(!other, "other content was replaced");
    require_eq!(
        files.text("/r/f").await?.as_deref(),
        Some("original"),
        "content"
    );
    // The host may replace its own read-only files.
    files.seed("/r/f", "again", true).await?;
    require_eq!(
        files.text("/r/f").await?.as_deref(),
        Some("again"),
        "content seeded again"
    );
    files.write("/r/neighbour", "free").await?;
    Ok(())
}

pub(super) async fn r52_recursive_delete_spares_read_only_files(
    store: FileSystemRef,
) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/d/a/first", "1").await?;
    files.seed("/d/m/deep/locked", "2", true).await?;
    files.write("/d/z", "3").await?;
    let deleted = files.delete_all("/d").await;
    refused(
        deleted,
        "deleting a directory with a read-only file",
        "/d/m/deep/locked",
    )?;
    for (path, text) in [
        ("/d/a/first", "1"),
        ("/d/m/deep/locked", "2"),
        ("/d/z", "3"),
    ] {
        require_eq!(
            files.text(path).await?.as_deref(),
            Some(text),
            "{path} afterwards"
        );
    }
    require!(
        files.delete_all("/d/a").await?,
        "the neighbouring directory was not deleted"
    );
    Ok(())
}

pub(super) async fn r53_delete_removes_the_read_only_mark(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.seed("/f", "1", true).await?;
    files.seed("/f", "2", false).await?;
    require!(
        files.delete("/f").await?,
        "a file that is no longer read-only was not deleted"
    );
    files.write("/f", "3").await?;
    files.write("/f", "4").await?;
    files.seed("/d/f", "1", true).await?;
    files.seed("/d/f", "2", false).await?;
    require!(
        files.delete_all("/d").await?,
        "the directory was not deleted"
    );
    files.write("/d/f", "3").await?;
    require!(
        files.delete_all("/d").await?,
        "the directory was not deleted again"
    );
    Ok(())
}

pub(super) async fn r58_root_and_read_only_files_cannot_be_deleted(
    store: FileSystemRef,
) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/f", "x").await?;
    files.seed("/r", "x", true).await?;
    for root in ["/", "", "/workspace", "."] {
        refused(files.delete(root).await, "deleting the root", "root")?;
        refused(
            files.delete_all(root).await,
            "deleting all of the root",
            "root",
        )?;
    }
    refused(
        files.delete("/r").await,
        "deleting a read-only file",
        "read-only: /r",
    )?;
    refused(
        files.delete_all("/r").await,
        "deleting a read-only file",
        "read-only: /r",
    )?;
    require_eq!(
        files.paths_in("/").await?,
        ["/f", "/r"],
        "children of / afterwards"
    );
    Ok(())
}

pub(super) async fn r61_list_and_stat_show_read_only(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.seed("/d/locked", "x", true).await?;
    files.seed("/d/seeded", "x", false).await?;
    files.write("/d/written", "x").await?;
    let expected = [
        ("/d/locked", true),
        ("/d/seeded", false),
        ("/d/written", false),
    ];
    let listed = files.store.list_directory(files.session, "/d").await?;
    let shown: Vec<_> = listed
        .iter()
        .map(|e| (e.path.as_str(), e.is_readonly))
        .collect();
    require_eq!(shown, expected, "listing");
    for (path, is_readonly) in expected {
        let stat = files.store.stat_file(files.session, path).await?;
        require_eq!(
            stat.map(|stat| stat.is_readonly),
            Some(is_readonly),
            "stat of {path}"
        );
        let read = files.store.read_file(files.session, path).await?;
        require_eq!(
            read.map(|read| read.is_readonly),
            Some(is_readonly),
            "reading {path}"
        );
    }
    Ok(())
}
