//! Spellings of paths.

use super::subject::{FileFixture, FileSystemRef, refused};
use crate::conformance::check::CheckOutcome;

pub(super) async fn r50_dot_dot_is_refused_everywhere(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    let (store, session) = (&files.store, files.session);
    files.write("/a/file", "x").await?;
    for path in [
        "..",
        "/..",
        "/a/../file",
        "/a/../../escape",
        "/workspace/../x",
        "a/..",
    ] {
        let why = "path traversal rejected";
        refused(
            store.read_file(session, path).await,
            &format!("reading {path}"),
            why,
        )?;
        refused(
            files.write(path, "x").await,
            &format!("writing {path}"),
            why,
        )?;
        refused(files.delete(path).await, &format!("deleting {path}"), why)?;
        refused(files.paths_in(path).await, &format!("listing {path}"), why)?;
        refused(
            store.stat_file(session, path).await,
            &format!("stat of {path}"),
            why,
        )?;
        let made = store.create_directory(session, path).await;
        refused(made, &format!("making {path}"), why)?;
        refused(
            files.seed(path, "x", false).await,
            &format!("seeding {path}"),
            why,
        )?;
        refused(
            files.replace(path, "x", "y").await,
            &format!("replacing {path}"),
            why,
        )?;
    }
    require_eq!(
        files.paths_in("/").await?,
        ["/a"],
        "children of / afterwards"
    );
    Ok(())
}

pub(super) async fn r50_dots_in_a_name_are_normal(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    for path in ["/a..b", "/...", "/..a", "/a..", "/.hidden"] {
        files.write(path, path).await?;
        require_eq!(
            files.text(path).await?.as_deref(),
            Some(path),
            "content of {path}"
        );
    }
    Ok(())
}

pub(super) async fn r51_spellings_of_a_path_are_one_path(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    let spellings = [
        "/a/b",
        "a/b",
        "//a//b",
        "/a/./b",
        "/a/b/",
        "/workspace/a/b",
        "./a/b/.",
    ];
    for written in spellings {
        files.write(written, written).await?;
        for read in spellings {
            let text = files.text(read).await?;
            require_eq!(
                text.as_deref(),
                Some(written),
                "{read} after writing {written}"
            );
        }
    }
    require_eq!(files.paths_in("/").await?, ["/a"], "children of /");
    require_eq!(files.paths_in("//a/").await?, ["/a/b"], "children of //a/");
    // A directory may really have the name of the prefix.
    files.write("/workspace/workspace/x", "inner").await?;
    require_eq!(
        files.paths_in("/").await?,
        ["/a", "/workspace"],
        "children of /"
    );
    require!(
        files.text("/x").await?.is_none(),
        "the prefix was taken off twice"
    );
    Ok(())
}
