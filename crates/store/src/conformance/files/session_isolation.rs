//! Sessions with files of their own.

use std::sync::Arc;

use super::subject::{FileFixture, FileSystemRef};
use crate::conformance::check::CheckOutcome;

pub(super) async fn r62_sessions_never_see_each_other(store: FileSystemRef) -> CheckOutcome {
    let (one, two) = (
        FileFixture::new(Arc::clone(&store)),
        FileFixture::new(store),
    );
    one.write("/d/f", "one").await?;
    one.seed("/locked", "one", true).await?;
    require!(
        two.text("/d/f").await?.is_none(),
        "another session's file can be read"
    );
    require!(
        two.paths_in("/").await?.is_empty(),
        "another session's files are listed"
    );
    require!(
        two.grep("one", None).await?.is_empty(),
        "another session's files are searched"
    );
    require!(
        !two.delete_all("/d").await?,
        "another session's directory can be deleted"
    );
    two.write("/d/f", "two").await?;
    two.write("/locked", "two").await?;
    require_eq!(
        one.text("/d/f").await?.as_deref(),
        Some("one"),
        "the first session's file"
    );
    require_eq!(
        one.text("/locked").await?.as_deref(),
        Some("one"),
        "the first session's file"
    );
    Ok(())
}

pub(super) async fn forgotten_session_has_no_files(store: FileSystemRef) -> CheckOutcome {
    let (one, two) = (
        FileFixture::new(Arc::clone(&store)),
        FileFixture::new(store),
    );
    one.seed("/locked", "one", true).await?;
    two.write("/f", "two").await?;
    one.store.forget_session(one.session).await?;
    one.store.forget_session(one.session).await?;
    require!(
        one.paths_in("/").await?.is_empty(),
        "a forgotten session has files"
    );
    require_eq!(
        two.text("/f").await?.as_deref(),
        Some("two"),
        "the other session's file"
    );
    one.write("/locked", "new").await?;
    Ok(())
}
