use serde_json::json;

use super::*;

fn rules(rules: Value) -> ApprovalRules {
    let rules: ApprovalRules = serde_json::from_value(rules).unwrap();
    for rule in &rules.rules {
        rule.check().unwrap();
    }
    rules
}

fn shell(rules: &ApprovalRules, command: &str) -> ApprovalAction {
    rules.decide("shell", &json!({ "command": command }), true)
}

#[test]
fn without_rules_the_policy_of_the_tool_applies() {
    let none = ApprovalRules::default();
    assert_eq!(none.decide("write", &json!({}), true), ApprovalAction::Ask);
    assert_eq!(
        none.decide("write", &json!({}), false),
        ApprovalAction::Allow
    );
    let never = rules(json!({ "default": "deny" }));
    assert_eq!(
        never.decide("write", &json!({}), true),
        ApprovalAction::Deny
    );
    assert_eq!(
        never.decide("write", &json!({}), false),
        ApprovalAction::Allow
    );
}

#[test]
fn plain_line_is_allowed_if_every_command_is() {
    let rules = rules(json!({ "rules": [
        { "tool": "shell", "command": "cargo test", "action": "allow" },
        { "tool": "shell", "command": "ls", "action": "allow" },
        { "tool": "shell", "command": "git push", "action": "deny" },
        { "tool": "shell", "command": "ls /etc", "action": "ask" },
    ]}));
    for allowed in [
        "cargo test",
        "cargo  test --lib 'a b'",
        "cargo test && ls -l",
        "ls | ls; cargo test",
        "cargo test 2>&1 | ls",
        "cargo test\nls",
    ] {
        assert_eq!(shell(&rules, allowed), ApprovalAction::Allow, "{allowed}");
    }
    for asked in [
        "cargo",
        "cargo testing",
        "/tmp/ls",
        "cargo test & rm x",
        "cargo test && rm x",
        "cargo test $(rm x)",
        "cargo test `rm x`",
        "cargo test > /etc/passwd",
        "cargo test \"$(rm x)\"",
        "cargo test\nrm x",
        "A=b cargo test",
        "cargo test 'open",
        "ls /etc",
        "ls && ls /etc",
        "ls -l /etc",
        "(cargo test)",
        "ls *.rs",
        "",
    ] {
        assert_eq!(shell(&rules, asked), ApprovalAction::Ask, "{asked}");
    }
}

#[test]
fn careful_rule_finds_its_command() {
    let rules = rules(json!({ "rules": [
        { "tool": "shell", "command": "git push", "action": "deny" },
        { "tool": "shell", "command": "echo", "action": "allow" },
        { "tool": "shell", "command": "git", "action": "allow" },
        { "tool": "shell", "command": "bash", "action": "allow" },
    ]}));
    for denied in [
        // Plain lines.
        "git push",
        "echo x && git push --force",
        "'git' \"push\"",
        "/usr/bin/git push",
        "git -C . push",
        "git --no-pager -c color.ui=never push",
        // Lines that are not plain: the words occur in them.
        "X=1 git push",
        "git   push $(x)",
        "(git push)",
        "echo $(git push)",
        "echo \"$(git push)\"",
        "echo \"a `git push` b\"",
        "if true; then git push; fi",
        "while :; do git push; done",
        "git >log push",
        "git push > log",
        "bash <<< 'git push'",
        "cat <<E\nit's $(git push) isn't\nE",
        "x='git push'; $x",
        "{git,push}",
        "a=(git push); \"${a[@]}\"",
        "find . -exec git push \\;",
        "PS4='$(git push)' bash -xc :",
        "git push & echo x",
        "time /usr/bin/git push",
        "git push\r\n",
    ] {
        assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
    }
    for asked in [
        "$g push",
        "git pus?",
        "git $a",
        "eval \"$x\"",
        "echo x > y",
        "echo `ls`",
        "for f in *.rs; do wc \"$f\"; done",
        "sudo git push",
        "env git push",
    ] {
        assert_eq!(shell(&rules, asked), ApprovalAction::Ask, "{asked}");
    }
    // An `allow` rule accepts its program with any arguments.
    for allowed in [
        "git status",
        "git commit -m 'push it'",
        "echo git push",
        "bash -c 'git push'",
    ] {
        assert_eq!(shell(&rules, allowed), ApprovalAction::Allow, "{allowed}");
    }
}

#[test]
fn line_that_is_not_plain_is_never_allowed_by_a_command_rule() {
    let with_default = |default: &str| {
        rules(json!({ "default": default, "rules": [
            { "tool": "shell", "command": "git push", "action": "deny" },
            { "tool": "shell", "command": "echo", "action": "allow" },
        ]}))
    };
    for (default, action) in [
        ("allow", ApprovalAction::Ask),
        ("ask", ApprovalAction::Ask),
        ("deny", ApprovalAction::Deny),
    ] {
        assert_eq!(shell(&with_default(default), "echo $x"), action);
    }
    let whole_tool = rules(json!({ "rules": [
        { "tool": "shell", "action": "allow" },
        { "tool": "shell", "command": "git push", "action": "deny" },
    ]}));
    assert_eq!(shell(&whole_tool, "echo $x"), ApprovalAction::Allow);
    assert_eq!(shell(&whole_tool, "echo $(git push)"), ApprovalAction::Deny);
    let other_tool = rules(json!({ "default": "allow", "rules": [
        { "tool": "exec", "command": "echo", "action": "allow" },
    ]}));
    assert_eq!(shell(&other_tool, "echo $x"), ApprovalAction::Allow);
}

#[test]
fn relative_program_is_allowed_only_in_the_usual_directory() {
    let rules = rules(json!({ "rules": [
        { "tool": "shell", "command": "./build.sh", "action": "allow" },
        { "tool": "shell", "command": "/opt/build.sh", "action": "allow" },
        { "tool": "shell", "command": "ls", "action": "allow" },
        { "tool": "shell", "command": "cd", "action": "allow" },
        { "tool": "shell", "arguments": { "cwd": "sub" }, "command": "./sub.sh", "action": "allow" },
    ]}));
    let on = |arguments: Value| rules.decide("shell", &arguments, true);
    assert_eq!(
        on(json!({ "command": "./build.sh" })),
        ApprovalAction::Allow
    );
    for moved in [
        json!({ "command": "./build.sh", "cwd": "sub" }),
        json!({ "command": "./build.sh", "cwd": 1 }),
        json!({ "command": "cd sub && ./build.sh" }),
    ] {
        assert_eq!(on(moved.clone()), ApprovalAction::Ask, "{moved}");
    }
    for command in ["/opt/build.sh", "ls", "./sub.sh"] {
        let moved = json!({ "command": command, "cwd": "sub" });
        assert_eq!(on(moved), ApprovalAction::Allow, "{command}");
    }
}

#[test]
fn command_as_a_list_of_words_is_one_command() {
    let rules = rules(json!({ "rules": [
        { "tool": "*", "command": "git push", "action": "deny" },
        { "tool": "*", "command": "ls", "action": "allow" },
    ]}));
    let on = |command: Value| rules.decide("exec", &json!({ "command": command }), true);
    assert_eq!(on(json!(["ls", "-l", "; rm x"])), ApprovalAction::Allow);
    assert_eq!(on(json!(["git", "push"])), ApprovalAction::Deny);
    assert_eq!(on(json!(["bash", "-lc", "ls"])), ApprovalAction::Ask);
    assert_eq!(on(json!(["ls", 1])), ApprovalAction::Ask);
    assert_eq!(on(json!([])), ApprovalAction::Ask);
    assert_eq!(on(json!(["git", ["push"]])), ApprovalAction::Deny);
    assert_eq!(on(json!({ "line": "git push" })), ApprovalAction::Deny);
    let hidden = format!("git push;{}", "a;".repeat(200_000));
    assert_eq!(on(json!(hidden)), ApprovalAction::Deny);
    assert_eq!(on(json!("$(".repeat(200_000))), ApprovalAction::Ask);
}

#[test]
fn denied_script_is_found_in_any_directory() {
    let rules = rules(json!({ "rules": [
        { "tool": "*", "command": "./deploy.sh", "action": "deny" },
        { "tool": "*", "command": "ls", "action": "allow" },
    ]}));
    for denied in [
        "./deploy.sh",
        ".//deploy.sh now",
        "../ws/deploy.sh",
        "/home/me/ws/deploy.sh",
        "$PWD/deploy.sh",
        "deploy.sh",
        "ls; ./deploy.sh",
    ] {
        assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
    }
    assert_eq!(shell(&rules, "ls deploy.sh"), ApprovalAction::Allow);
    assert_eq!(shell(&rules, "sh deploy.sh"), ApprovalAction::Ask);
}

#[test]
fn arguments_match_by_pattern_and_unclear_paths_are_not_allowed() {
    let rules = rules(json!({ "rules": [
        { "tool": "write", "arguments": { "path": "docs/**" }, "action": "allow" },
        { "tool": "*", "arguments": { "path": "**/secret*" }, "action": "deny" },
        { "tool": "mcp__*", "action": "ask" },
    ]}));
    let on = |name: &str, path: &str, policy| rules.decide(name, &json!({ "path": path }), policy);
    let asks = true;
    assert_eq!(on("write", "docs/a/b.md", asks), ApprovalAction::Allow);
    for wandering in ["docs/../src/a.rs", "/docs/a", "src/docs/a", "docs/./../x"] {
        assert_eq!(
            on("write", wandering, asks),
            ApprovalAction::Ask,
            "{wandering}"
        );
    }
    for secret in ["docs/secret.md", "x/./secret", "a//b/secret1", "/x/secret"] {
        assert_eq!(on("read", secret, false), ApprovalAction::Deny, "{secret}");
    }
    assert_eq!(on("mcp__x__y", "a", false), ApprovalAction::Ask);
    assert!(!rules.refuses_all_of("read"), "only some of its calls");
}

#[test]
fn denied_path_is_found_in_every_spelling() {
    let rules = rules(json!({ "rules": [
        { "tool": "*", "arguments": { "path": ".github/**" }, "action": "deny" },
        { "tool": "*", "arguments": { "path": "./secret/**" }, "action": "deny" },
        { "tool": "*", "arguments": { "path": "/etc/**" }, "action": "deny" },
        { "tool": "many", "arguments": { "paths": "secret/**" }, "action": "deny" },
        { "tool": "grep", "arguments": { "path": "src/*/keys/**" }, "action": "ask" },
        { "tool": "*", "arguments": { "path": "docs/**" }, "action": "allow" },
        { "tool": "many", "arguments": { "paths": "docs/**" }, "action": "allow" },
    ]}));
    let on = |name: &str, arguments: Value, needs_approval| {
        rules.decide(name, &arguments, needs_approval)
    };
    for denied in [
        ".github/x",
        "./.github/x",
        ".//.github//x",
        "/ws/.github/workflows/x",
        "../ws/.github/x",
        "a/../.github/x",
        "secret",
        "secret/",
        "./secret",
        "secret/a",
        "/ws/secret",
        "src/../secret/",
        "/etc/passwd",
        "//etc/./passwd",
        "/etc",
    ] {
        let action = on("write", json!({ "path": denied }), false);
        assert_eq!(action, ApprovalAction::Deny, "{denied}");
    }
    for free in [
        "a/.github/x",
        ".githubx/y",
        "secrets",
        "./src/x",
        "/ws/src",
        "etc/x",
    ] {
        let action = on("read", json!({ "path": free }), false);
        assert_eq!(action, ApprovalAction::Allow, "{free}");
    }
    for (paths, action) in [
        (json!(["docs/a", "docs/b"]), ApprovalAction::Allow),
        (json!(["docs/a", "/docs/b"]), ApprovalAction::Ask),
        (json!(["docs/a", "./secret/b"]), ApprovalAction::Deny),
        (json!(["docs/a", 1]), ApprovalAction::Ask),
        (json!([]), ApprovalAction::Ask),
    ] {
        let call = json!({ "paths": paths });
        assert_eq!(on("many", call, true), action, "{paths}");
    }
    // A search of a directory may reach a denied path.
    for (name, arguments, action) in [
        ("grep", json!({ "pattern": "x" }), ApprovalAction::Ask),
        ("Grep", json!({ "pattern": "x" }), ApprovalAction::Ask),
        (
            "glob",
            json!({ "pattern": ".github/*" }),
            ApprovalAction::Ask,
        ),
        ("grep", json!({ "path": "." }), ApprovalAction::Ask),
        ("grep", json!({ "path": "" }), ApprovalAction::Ask),
        ("grep", json!({ "path": "/ws" }), ApprovalAction::Ask),
        ("grep", json!({ "path": "src" }), ApprovalAction::Ask),
        ("grep", json!({ "path": "src/a" }), ApprovalAction::Ask),
        ("grep", json!({ "path": "src/a/b" }), ApprovalAction::Allow),
        ("glob", json!({ "path": "src" }), ApprovalAction::Allow),
        ("grep", json!({ "path": "secret/" }), ApprovalAction::Deny),
        ("read", json!({ "path": "src" }), ApprovalAction::Allow),
        ("list", json!({}), ApprovalAction::Allow),
    ] {
        let said = format!("{name} {arguments}");
        assert_eq!(on(name, arguments, false), action, "{said}");
    }
}

#[test]
fn rule_that_cannot_match_is_refused() {
    for (tool, command) in [
        ("", None),
        ("shell", Some("a && b")),
        ("shell", Some("")),
        ("shell", Some("$x")),
    ] {
        let rule = ApprovalRule {
            tool: tool.to_owned(),
            arguments: BTreeMap::new(),
            command: command.map(str::to_owned),
            action: ApprovalAction::Allow,
        };
        assert!(rule.check().is_err(), "{tool} {command:?}");
    }
}
