//! Searching.

use super::subject::{FileFixture, FileSystemRef, refused};
use crate::conformance::check::CheckOutcome;
use crate::files::{MAX_HITS, MAX_LINE_CHARS, MAX_PATTERN_BYTES};

pub(super) async fn r56_grep_takes_a_regular_expression(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/a.txt", "one 1\r\ntwo 22\n\nlast").await?;
    files.write("/sub/b.md", "two 2").await?;
    for (pattern, part, expected) in [
        ("two", None, &["/a.txt:2:two 22", "/sub/b.md:1:two 2"][..]),
        ("two", Some(".md"), &["/sub/b.md:1:two 2"]),
        ("two", Some("/sub/"), &["/sub/b.md:1:two 2"]),
        ("two", Some(".rs"), &[]),
        (r"\d{2}$", None, &["/a.txt:2:two 22"]),
        ("1$", None, &["/a.txt:1:one 1"]),
        ("^(one|last)", None, &["/a.txt:1:one 1", "/a.txt:4:last"]),
        ("^$", None, &["/a.txt:3:"]),
        ("(?i)TWO 2$", None, &["/sub/b.md:1:two 2"]),
        (r"\Alast\z", None, &["/a.txt:4:last"]),
        (r"1\s+two", None, &[]),
        ("nowhere", None, &[]),
    ] {
        let hits = files.grep(pattern, part).await?;
        require_eq!(hits, expected, "hits of {pattern:?} in paths with {part:?}");
    }
    Ok(())
}

pub(super) async fn r56_invalid_pattern_is_an_error(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/f", "x").await?;
    for pattern in ["(", "[a", "a{2,1}", r"\p{Nothing}", "(?P<", r"(a)\1"] {
        let found = files.grep(pattern, None).await;
        refused(found, &format!("the pattern {pattern:?}"), pattern)?;
    }
    let huge = r"(\w{100}){100}";
    refused(
        files.grep(huge, None).await,
        "a pattern that needs much memory",
        huge,
    )?;
    let long = "a".repeat(MAX_PATTERN_BYTES + 1);
    refused(files.grep(&long, None).await, "a very long pattern", "aaaa")?;
    Ok(())
}

pub(super) async fn r56_hits_are_ordered_by_path_and_line(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    for path in ["/b", "/a/z", "/a.txt", "/a-/x", "/a0", "/a/b/c", "/a/b.c"] {
        files.write(path, "hit\nno\nhit").await?;
    }
    let hits = files.grep("hit", None).await?;
    let mut expected = Vec::new();
    for path in ["/a-/x", "/a.txt", "/a/b.c", "/a/b/c", "/a/z", "/a0", "/b"] {
        expected.extend([format!("{path}:1:hit"), format!("{path}:3:hit")]);
    }
    require_eq!(hits, expected, "hits");
    Ok(())
}

pub(super) async fn r56_hits_and_lines_are_limited(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    files.write("/many", &"hit\n".repeat(MAX_HITS - 1)).await?;
    files.write("/more", "hit\nhit\nhit\n").await?;
    let hits = files.grep("hit", None).await?;
    require_eq!(hits.len(), MAX_HITS, "number of hits");
    require_eq!(
        hits.last().map(String::as_str),
        Some("/more:1:hit"),
        "last hit"
    );

    files
        .write("/long", &format!("{}needle", "ä".repeat(MAX_LINE_CHARS)))
        .await?;
    let hits = files
        .store
        .grep_files(files.session, "needle", None)
        .await?;
    let lengths: Vec<_> = hits.iter().map(|hit| hit.line.chars().count()).collect();
    require_eq!(lengths, [MAX_LINE_CHARS], "characters of a long line");
    Ok(())
}

pub(super) async fn r56_only_text_is_searched(store: FileSystemRef) -> CheckOutcome {
    let files = FileFixture::new(store);
    // "\0needle", "\xffneedle" and "needle"
    for (path, content) in [
        ("/nul", "AG5lZWRsZQ=="),
        ("/not_utf8", "/25lZWRsZQ=="),
        ("/text", "bmVlZGxl"),
    ] {
        files
            .store
            .write_file(files.session, path, content, "base64")
            .await?;
    }
    require_eq!(
        files.grep("needle", None).await?,
        ["/text:1:needle"],
        "hits"
    );
    require_eq!(
        files.grep("bmVl", None).await?,
        Vec::<String>::new(),
        "hits in base64"
    );
    Ok(())
}
