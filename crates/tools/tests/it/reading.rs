//! `read` and `list`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::TestWorkspace;

async fn read(workspace: &TestWorkspace, arguments: Value) -> Value {
    workspace.call("read", arguments).await.unwrap()
}

#[tokio::test]
async fn lines_are_shown_with_a_remark_how_to_continue() {
    let workspace = TestWorkspace::new().files(&[("f", "one\r\ntwo\n\nfour"), ("empty", "")]);
    let whole = read(&workspace, json!({"path": "f"})).await;
    assert_eq!(
        whole,
        json!({"path": "f", "bytes": 14, "line_count": 4, "start_line": 1, "content": "one\r\ntwo\n\nfour"})
    );
    let part = read(
        &workspace,
        json!({"path": "f", "start_line": 2, "lines": 2}),
    )
    .await;
    assert_eq!(part["content"], "two\n\n");
    assert_eq!(
        part["remark"],
        "lines 2 to 3 of 4 are shown; continue with `start_line` 4"
    );
    let last = read(&workspace, json!({"path": "f", "start_line": 4})).await;
    assert_eq!(
        (&last["content"], &last["remark"]),
        (&json!("four"), &Value::Null)
    );
    let beyond = read(&workspace, json!({"path": "f", "start_line": 5})).await;
    assert_eq!(beyond["content"], "");
    assert_eq!(
        beyond["remark"],
        "the file has 4 lines, so there is none to show"
    );
    let empty = read(&workspace, json!({"path": "empty"})).await;
    assert_eq!(
        (&empty["line_count"], &empty["remark"]),
        (&json!(0), &Value::Null)
    );
}

#[tokio::test]
async fn long_files_and_lines_are_truncated() {
    let numbers: String = (1..=20_000).map(|n| format!("line {n}\n")).collect();
    let workspace =
        TestWorkspace::new().files(&[("numbers", &numbers), ("wide", &"é".repeat(100_000))]);
    let (mut seen, mut next) = (String::new(), 1);
    loop {
        let page = read(
            &workspace,
            json!({"path": "numbers", "start_line": next, "lines": 5000}),
        )
        .await;
        let content = page["content"].as_str().unwrap();
        assert!(content.len() < 64 * 1024);
        seen.push_str(content);
        next += content.lines().count();
        if page["remark"].is_null() {
            break;
        }
        assert_eq!(page["line_count"], 20_000);
    }
    assert_eq!(seen, numbers);
    let wide = read(&workspace, json!({"path": "wide"})).await;
    assert!(wide["content"].as_str().unwrap().starts_with("ééé"));
    assert!(wide["content"].as_str().unwrap().len() < 10_000);
    assert!(
        wide["remark"]
            .as_str()
            .unwrap()
            .contains("longer than 4096 bytes")
    );
}

#[tokio::test]
async fn non_text_file_is_refused_with_its_path() {
    let workspace = TestWorkspace::new().files(&[("d/", "")]);
    fs::write(workspace.root().join("bin"), b"\x7fELF\0\0").unwrap();
    fs::write(workspace.root().join("latin"), b"caf\xe9\n").unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(workspace.root().join("pipe"))
        .status();
    assert!(made.unwrap().success());
    for (path, error) in [
        ("bin", "bin is a binary file of 6 bytes"),
        ("d", "d is a directory, not a file"),
        ("missing", "missing does not exist"),
        ("bin/below", "bin/below is not a directory"),
        ("pipe", "pipe is neither a file nor a directory"),
    ] {
        let actual = workspace
            .call("read", json!({"path": path}))
            .await
            .unwrap_err();
        assert!(actual.starts_with(error), "{actual}");
    }
    let latin = read(&workspace, json!({"path": "latin"})).await;
    assert_eq!(latin["content"], "caf\u{fffd}\n");
    assert!(latin["remark"].as_str().unwrap().contains("not UTF-8"));
}

#[tokio::test]
async fn directory_list_is_sorted_and_limited() {
    let workspace = TestWorkspace::new().files(&[("b.txt", "abc"), ("a/x", ""), ("C", "")]);
    symlink("b.txt", workspace.root().join("link")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff");
    fs::write(workspace.root().join(odd), "").unwrap();
    let listed = workspace.call("list", json!({})).await.unwrap();
    assert_eq!(
        listed["entries"],
        json!([
            {"name": "C", "kind": "file", "bytes": 0},
            {"name": "a", "kind": "directory"},
            {"name": "b.txt", "kind": "file", "bytes": 3},
            {"name": "link", "kind": "link"}
        ])
    );
    assert_eq!(listed["remark"], "1 names that are not UTF-8 are omitted");
    for n in 0..600 {
        fs::write(workspace.root().join(format!("a/{n:03}")), "").unwrap();
    }
    let many = workspace.call("list", json!({"path": "a"})).await.unwrap();
    assert_eq!(many["entries"].as_array().unwrap().len(), 500);
    assert_eq!(
        (&many["entry_count"], &many["path"]),
        (&json!(601), &json!("a"))
    );
    assert!(many["remark"].as_str().unwrap().starts_with("500 of 601"));
    let error = workspace
        .call("list", json!({"path": "C"}))
        .await
        .unwrap_err();
    assert!(error.starts_with("C is not a directory"), "{error}");
}
