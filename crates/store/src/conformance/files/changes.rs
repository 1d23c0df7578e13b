//! Kinds, sizes, and changes at the same time.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::subject::{FileFixture, FileSystemRef, refused};
use crate::conformance::check::{CheckOutcome, Violation};

pub(super) async fn r54_files_and_directories_do_not_replace_each_other(
    store: FileSystemRef,
) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/d/f", "x").await?;
    let (store, session) = (&files.store, files.session);
    refused(
        files.write("/d", "x").await,
        "a file over a directory",
        "/d",
    )?;
    refused(files.write("/", "x").await, "a file over the root", "/")?;
    refused(
        files.seed("/d", "x", false).await,
        "a seeded file over a directory",
        "/d",
    )?;
    refused(
        files.write("/d/f/below", "x").await,
        "a file below a file",
        "/d/f/below",
    )?;
    refused(
        files.write("/d/f/below/it", "x").await,
        "a file below a file",
        "/d/f/below/it",
    )?;
    let made = store.create_directory(session, "/d/f").await;
    refused(made, "a directory over a file", "/d/f")?;
    let made = store.create_directory(session, "/d/f/below").await;
    refused(made, "a directory below a file", "/d/f/below")?;
    require_eq!(
        files.text("/d/f").await?.as_deref(),
        Some("x"),
        "the file afterwards"
    );
    require_eq!(
        files.paths_in("/d").await?,
        ["/d/f"],
        "the directory afterwards"
    );
    Ok(())
}

pub(super) async fn r55_size_is_the_decoded_length(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    for (content, encoding, size) in [
        ("AAECAwQ=", "base64", 5),
        ("", "base64", 0),
        ("/////w==", "base64", 4),
        ("äöü", "text", 6),
    ] {
        let written = files
            .store
            .write_file(files.session, "/f", content, encoding)
            .await?;
        require_eq!(written.size_bytes, size, "size of {content:?} as written");
        let stat = files.store.stat_file(files.session, "/f").await?;
        require_eq!(
            stat.map(|stat| stat.size_bytes),
            Some(size),
            "stat of {content:?}"
        );
        let read = files.store.read_file(files.session, "/f").await?;
        require_eq!(
            read.map(|read| read.size_bytes),
            Some(size),
            "reading {content:?}"
        );
        let listed = files.store.list_directory(files.session, "/").await?;
        let listed = listed.first().map(|entry| entry.size_bytes);
        require_eq!(listed, Some(size), "listing {content:?}");
    }
    Ok(())
}

pub(super) async fn r55_invalid_base64_is_refused(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/there", "x").await?;
    for content in ["%%%%", "AAE", "AAEC\n", "AB==x", "ä", "AAF="] {
        for path in ["/there", "/new"] {
            let written = files
                .store
                .write_file(files.session, path, content, "base64")
                .await;
            refused(written, &format!("{content:?} as base64"), path)?;
        }
    }
    require_eq!(
        files.text("/there").await?.as_deref(),
        Some("x"),
        "the old content"
    );
    require_eq!(
        files.paths_in("/").await?,
        ["/there"],
        "children of / afterwards"
    );
    Ok(())
}

pub(super) async fn r60_one_of_many_conditional_writes_succeeds(
    store: FileSystemRef,
) -> CheckOutcome {
    const WRITERS: usize = 16;
    const ROUNDS: usize = 8;
    let files = Arc::new(FileFixture::new(store));
    files.write("/f", "round 0").await?;
    for round in 0..ROUNDS {
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let files = Arc::clone(&files);
            let (old, new) = (format!("round {round}"), format!("round {}", round + 1));
            writers.spawn(async move { files.replace("/f", &old, &new).await });
        }
        let mut succeeded = 0;
        while let Some(written) = writers.join_next().await {
            let written = written.map_err(|error| Violation(format!("a writer died: {error}")))?;
            succeeded += usize::from(written?);
        }
        require_eq!(succeeded, 1, "writers that succeeded in round {round}");
    }
    Ok(())
}

pub(super) async fn r60_readers_never_see_half_a_file(store: FileSystemRef) -> CheckOutcome {
    const ROUNDS: usize = 40;
    let files = Arc::new(FileFixture::new(store));
    let texts = ["a".repeat(100_000), "b".repeat(50_000)];
    files.write("/f", &texts[0]).await?;
    let writer = {
        let (files, texts) = (Arc::clone(&files), texts.clone());
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                files.write("/f", &texts[round % 2]).await?;
            }
            Ok::<_, windlass_core::error::AgentLoopError>(())
        })
    };
    for _ in 0..ROUNDS {
        let text = files.text("/f").await?;
        let whole = text.is_some_and(|text| texts.contains(&text));
        require!(whole, "a reader saw neither the old nor the new content");
        let listed = files.paths_in("/").await?;
        require_eq!(listed, ["/f"], "children of / during a write");
        tokio::task::yield_now().await;
    }
    let written = writer.await;
    written.map_err(|error| Violation(format!("the writer died: {error}")))??;
    Ok(())
}
