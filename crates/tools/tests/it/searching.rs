//! `glob` and `grep`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::TestWorkspace;

fn tree() -> TestWorkspace {
    let workspace = TestWorkspace::new().files(&[
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        (".git/config", "needle"),
        ("a.rs", "fn one() {}\n"),
        ("src/lib.rs", "// needle\nfn two() {}\nNeedle\n"),
        ("src/deep/mod.rs", "needle"),
        ("src/.gitignore", "/deep\n"),
        ("target/out.rs", "needle"),
        ("x.log", "needle"),
        ("keep.log", "needle"),
        ("notes.md", "no"),
    ]);
    fs::write(workspace.root().join("bin.rs"), b"needle\0").unwrap();
    fs::write(workspace.root().join("latin"), b"caf\xe9 au lait\n").unwrap();
    symlink(workspace.outside(), workspace.root().join("elsewhere")).unwrap();
    fs::write(workspace.outside().join("out.rs"), "needle").unwrap();
    workspace
}

#[tokio::test]
async fn glob_is_sorted_and_omits_ignored_files() {
    let workspace = tree();
    for (arguments, found) in [
        (
            json!({"pattern": "*.rs"}),
            vec!["a.rs", "bin.rs", "src/lib.rs"],
        ),
        (json!({"pattern": "./*.rs"}), vec!["a.rs", "bin.rs"]),
        (
            json!({"pattern": "src/**"}),
            vec!["src/.gitignore", "src/lib.rs"],
        ),
        (
            json!({"pattern": "*.{md,log}"}),
            vec!["keep.log", "notes.md"],
        ),
        (
            json!({"pattern": "lib.rs", "path": "src"}),
            vec!["src/lib.rs"],
        ),
        (
            json!({"pattern": "*", "path": "src/deep"}),
            vec!["src/deep/mod.rs"],
        ),
        (
            json!({"pattern": "**/*.rs", "include_ignored": true}),
            vec![
                "a.rs",
                "bin.rs",
                "src/deep/mod.rs",
                "src/lib.rs",
                "target/out.rs",
            ],
        ),
        (json!({"pattern": "nothing"}), vec![]),
    ] {
        let files = workspace.call("glob", arguments.clone()).await.unwrap();
        assert_eq!(files, json!({ "files": found }), "{arguments}");
    }
}

#[tokio::test]
async fn ignore_rules_above_the_start_apply() {
    let workspace = tree().files(&[("src/sub/x.log", ""), ("src/sub/y", "")]);
    let files = workspace
        .call("glob", json!({"pattern": "*", "path": "src/sub"}))
        .await;
    assert_eq!(files.unwrap(), json!({"files": ["src/sub/y"]}));
}

#[tokio::test]
async fn grep_omits_ignored_and_binary_files() {
    let workspace = tree();
    let hit = |path: &str, line: u32, text: &str| json!({"path": path, "line": line, "text": text});
    for (arguments, found) in [
        (
            json!({"pattern": "needle"}),
            vec![
                hit("keep.log", 1, "needle"),
                hit("src/lib.rs", 1, "// needle"),
            ],
        ),
        (
            json!({"pattern": "^needle$", "ignore_case": true, "glob": "*.rs"}),
            vec![hit("src/lib.rs", 3, "Needle")],
        ),
        (
            json!({"pattern": "one", "path": "a.rs"}),
            vec![hit("a.rs", 1, "fn one() {}")],
        ),
        (
            json!({"pattern": "lait"}),
            vec![hit("latin", 1, "caf\u{fffd} au lait")],
        ),
        (json!({"pattern": "absent"}), vec![]),
    ] {
        let found_here = workspace.call("grep", arguments.clone()).await.unwrap();
        assert_eq!(found_here["matches"], Value::Array(found), "{arguments}");
    }
    let around = workspace
        .call("grep", json!({"pattern": "two", "context": 5}))
        .await
        .unwrap();
    let shown = &around["matches"][0];
    assert_eq!(
        (&shown["before"], &shown["after"]),
        (&json!(["// needle"]), &json!(["Needle"]))
    );
}

#[tokio::test]
async fn long_results_are_truncated_with_a_remark() {
    let workspace =
        TestWorkspace::new().files(&[("many", &"x\n".repeat(1000)), ("wide", &"y".repeat(5000))]);
    let some = workspace
        .call("grep", json!({"pattern": "x", "limit": 7}))
        .await
        .unwrap();
    assert_eq!(some["matches"].as_array().unwrap().len(), 7);
    assert_eq!(
        some["remark"],
        "only the first 7 matches are shown; there are more"
    );
    let exactly = workspace
        .call("grep", json!({"pattern": "y", "limit": 1}))
        .await
        .unwrap();
    assert_eq!(exactly["remark"], Value::Null);
    assert_eq!(
        exactly["matches"][0]["text"]
            .as_str()
            .unwrap()
            .chars()
            .count(),
        301
    );
    for n in 0..501 {
        fs::write(workspace.root().join(format!("f{n:03}")), "").unwrap();
    }
    let files = workspace
        .call("glob", json!({"pattern": "f*"}))
        .await
        .unwrap();
    assert_eq!(files["files"].as_array().unwrap().len(), 500);
    assert!(
        files["remark"]
            .as_str()
            .unwrap()
            .starts_with("only the first 500")
    );
    fs::write(workspace.root().join("huge"), vec![b'z'; 9 * 1024 * 1024]).unwrap();
    let huge = workspace
        .call("grep", json!({"pattern": "zzz"}))
        .await
        .unwrap();
    assert_eq!(
        huge["remark"],
        "1 files of more than 8388608 bytes were not searched"
    );
}

#[tokio::test]
async fn invalid_patterns_are_errors() {
    let workspace = TestWorkspace::new();
    for (tool, arguments, error) in [
        ("grep", json!({"pattern": "("}), "invalid pattern: "),
        (
            "grep",
            json!({"pattern": "x{9999}{9999}"}),
            "invalid pattern: ",
        ),
        (
            "grep",
            json!({"pattern": "x", "glob": "{a"}),
            "invalid glob: ",
        ),
        ("glob", json!({"pattern": "[a"}), "invalid pattern: "),
        (
            "glob",
            json!({"pattern": "*", "path": "missing"}),
            "missing does not exist",
        ),
    ] {
        let actual = workspace.call(tool, arguments).await.unwrap_err();
        assert!(actual.starts_with(error), "{actual}");
    }
}

#[tokio::test]
async fn a4_nested_braces_are_an_invalid_pattern() {
    let workspace = tree();
    for pattern in [
        "{".repeat(20_000),
        format!("{}a{}", "{".repeat(2_000), "}".repeat(2_000)),
        "[".repeat(20_000),
    ] {
        for (tool, arguments) in [
            ("glob", json!({"pattern": pattern})),
            ("grep", json!({"pattern": "needle", "glob": pattern})),
        ] {
            let refused = workspace.call(tool, arguments).await;
            assert!(refused.unwrap_err().contains("pattern"), "{tool}");
        }
    }
    let regex = format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000));
    assert!(
        workspace
            .call("grep", json!({"pattern": regex}))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a5_ignore_file_of_nested_braces_is_harmless() {
    let workspace = tree();
    let rules = format!("{}\n*.log\n", "{".repeat(40_000));
    fs::write(workspace.root().join("src/.gitignore"), rules).unwrap();
    let found = workspace
        .call("glob", json!({"pattern": "src/**/*.rs"}))
        .await
        .unwrap();
    assert_eq!(found["files"], json!(["src/deep/mod.rs", "src/lib.rs"]));
}

#[tokio::test]
async fn too_long_expression_is_refused() {
    let long = json!({"pattern": "\\p{L}".repeat(4_000), "ignore_case": true});
    let refused = tree().call("grep", long).await.unwrap_err();
    assert!(refused.contains("longer than 4096 bytes"), "{refused}");
}

/// Files are searched in parallel; the output is the same as in sequence.
#[tokio::test]
async fn many_files_are_sorted_by_path() {
    let workspace = TestWorkspace::new();
    let mut expected = Vec::new();
    for n in 0..1500 {
        let path = format!("d{:02}/f{n:04}", n / 100);
        fs::create_dir_all(workspace.root().join(format!("d{:02}", n / 100))).unwrap();
        // Some files take much longer than others.
        let filler = "filler\n".repeat(if n % 97 == 0 { 50_000 } else { 3 });
        let hits = if n % 5 == 0 { 2 } else { 0 };
        fs::write(
            workspace.root().join(&path),
            filler + &"needle\n".repeat(hits),
        )
        .unwrap();
        expected.extend((0..hits).map(|_| path.clone()));
    }
    let paths = |found: &Value| -> Vec<String> {
        let matches = found["matches"].as_array().unwrap().iter();
        matches
            .map(|hit| hit["path"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = workspace.call("grep", json!({"pattern": "^needle$", "limit": 500}));
    let all = all.await.unwrap();
    assert_eq!(paths(&all), expected[..500]);
    // The 251st matching file is the 1251st of all: it shows that there are more matches.
    assert_eq!(all["files_searched"], 1251);
    for limit in [1, 2, 3, 120] {
        let some = workspace.call("grep", json!({"pattern": "needle", "limit": limit}));
        let some = some.await.unwrap();
        assert_eq!(paths(&some), expected[..limit]);
        let again = workspace.call("grep", json!({"pattern": "needle", "limit": limit}));
        assert_eq!(again.await.unwrap(), some);
        assert_eq!(
            some["files_searched"],
            limit.div_ceil(2) * 5 - 4 + if limit % 2 == 0 { 5 } else { 0 }
        );
    }
    let none = workspace
        .call("grep", json!({"pattern": "absent"}))
        .await
        .unwrap();
    assert_eq!(
        (&none["files_searched"], &none["remark"]),
        (&json!(1500), &Value::Null)
    );
}
