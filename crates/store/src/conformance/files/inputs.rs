//! Input that is odd or bad.

use super::subject::{FileFixture, FileSystemRef, refused};
use crate::conformance::check::CheckOutcome;
use crate::files::MAX_DEPTH;

pub(super) async fn invalid_names_are_refused(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    let long_name = "n".repeat(4096);
    let long_path = "a/".repeat(4096);
    let deep_path = "d/".repeat(MAX_DEPTH + 1);
    for path in ["a\0b", "/a/\0", &long_name, &long_path, &deep_path] {
        refused(files.write(path, "x").await, "writing a bad path", "")?;
        refused(files.text(path).await, "reading a bad path", "")?;
        refused(files.delete_all(path).await, "deleting a bad path", "")?;
        refused(files.paths_in(path).await, "listing a bad path", "")?;
        let made = files.store.create_directory(files.session, path).await;
        refused(made, "making a bad directory", "")?;
    }
    require!(files.paths_in("/").await?.is_empty(), "something was made");
    let deepest = "d/".repeat(MAX_DEPTH);
    files.write(&deepest, "deep").await?;
    require_eq!(
        files.text(&deepest).await?.as_deref(),
        Some("deep"),
        "the deepest path"
    );
    require_eq!(
        files.grep("deep", None).await?.len(),
        1,
        "hits in the deepest path"
    );
    require!(
        files.delete_all("/d").await?,
        "the deepest path was not deleted"
    );
    Ok(())
}

pub(super) async fn names_are_case_sensitive(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/name", "lower").await?;
    files.write("/Name", "upper").await?;
    require_eq!(
        files.text("/name").await?.as_deref(),
        Some("lower"),
        "/name"
    );
    require_eq!(
        files.text("/Name").await?.as_deref(),
        Some("upper"),
        "/Name"
    );
    require_eq!(
        files.paths_in("/").await?,
        ["/Name", "/name"],
        "children of /"
    );
    Ok(())
}

pub(super) async fn odd_names_and_contents_round_trip(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    let longest = "n".repeat(255);
    let names = [
        " ",
        "a b",
        "-rf",
        "*",
        "a\\b",
        "~",
        "\"",
        "日本語",
        "a\nb",
        "con",
        &longest,
    ];
    for name in names {
        files.write(name, name).await?;
        require_eq!(
            files.text(name).await?.as_deref(),
            Some(name),
            "content of {name:?}"
        );
    }
    let listed = files.store.list_directory(files.session, "/").await?;
    let mut expected = names.to_vec();
    expected.sort_unstable();
    let listed: Vec<_> = listed.iter().map(|entry| entry.name.as_str()).collect();
    require_eq!(listed, expected, "names in /");
    for name in names {
        require!(files.delete(name).await?, "{name:?} was not deleted");
    }
    Ok(())
}

pub(super) async fn unknown_encoding_is_refused(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    for encoding in ["", "utf-8", "TEXT", "hex"] {
        let written = files
            .store
            .write_file(files.session, "/f", "x", encoding)
            .await;
        refused(written, &format!("the encoding {encoding:?}"), "encoding")?;
    }
    require!(files.text("/f").await?.is_none(), "a refused file is there");
    Ok(())
}
