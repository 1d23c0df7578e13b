use serde_json::json;

use super::*;

fn rules(rules: Value) -> ApprovalRules {
    let rules: ApprovalRules = serde_json::from_value(rules).unwrap();
    for rule in &rules.rules {
        rule.check().unwrap();
    }
    rules
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "c".to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

fn shell(rules: &ApprovalRules, command: &str) -> ApprovalAction {
    let call = call("shell", json!({ "command": command }));
    rules.action_on(&call, ToolPolicy::RequiresApproval)
}

#[test]
fn without_rules_a_tool_is_as_it_says() {
    let none = ApprovalRules::default();
    let call = call("write", json!({}));
    for (policy, action) in [
        (ToolPolicy::RequiresApproval, ApprovalAction::Ask),
        (ToolPolicy::Auto, ApprovalAction::Allow),
        (ToolPolicy::ClientSide, ApprovalAction::Allow),
    ] {
        assert_eq!(none.action_on(&call, policy), action);
    }
    let never = rules(json!({ "default": "deny" }));
    assert_eq!(
        never.action_on(&call, ToolPolicy::RequiresApproval),
        ApprovalAction::Deny
    );
    assert_eq!(
        never.action_on(&call, ToolPolicy::Auto),
        ApprovalAction::Allow
    );
}

#[test]
fn a_command_is_allowed_when_all_of_it_is() {
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
    ] {
        assert_eq!(shell(&rules, allowed), ApprovalAction::Allow, "{allowed}");
    }
    for asked in [
        "cargo",
        "cargo testing",
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
        "(cargo test)",
        "",
    ] {
        assert_eq!(shell(&rules, asked), ApprovalAction::Ask, "{asked}");
    }
    for denied in [
        "git push",
        "ls && git push --force",
        "X=1 git push",
        "git   push $(x)",
        "'git' \"push\"",
        "(git push)",
        "echo $(git push)",
        "if true; then git push; fi",
        "while :; do git push; done",
        "time git push",
        "/usr/bin/git push",
        "sudo -n git push",
        "sudo env A=b git push",
        "bash -c 'ls && git push'",
        "sh -ec \"bash -c 'git push'\"",
        "eval 'git push'",
        "sudo -u root git push",
        "sudo -u root /usr/bin/git push",
        "nice -n 5 git push",
        "env -u X git push",
        "sudo -n env -i git push",
        "timeout 5 git push",
        "if timeout -k 1 5 git push; then ls; fi",
        "setsid git push",
        "stdbuf -o L git push",
        "doas -u x git push",
        "/usr/bin/time -f %e git push",
        "timeout 5 bash -c 'git push'",
        "sudo --exec bash -c 'git push'",
        "command eval 'git push'",
        "bash -ce 'git push'",
        "bash -c -e 'git push'",
        "bash -c -o pipefail 'git push'",
        "bash -co pipefail 'git push'",
        "bash -c +x 'git push'",
        "bash -c +o pipefail -O extglob 'git push'",
        "bash -c +O extglob +x 'git push'",
        "bash -c $'git push'",
        "find . -exec git push \\;",
        "find . -name x -execdir /usr/bin/git push {} +",
        "bash <<< 'git push'",
        "bash<<<\"git push\"",
        "bash <<< $'git push'",
        "cat <<< 'ls; git push' | sh",
        "bash <<< git\\ push",
        "watch -n 5 git push",
        "watch -n 5 'ls; git push'",
        "parallel 'git push' ::: origin",
        "flock /tmp/lock git push",
        "flock /tmp/lock -c 'git push'",
        "strace -f git push",
        "chroot / git push",
    ] {
        assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
    }
}

#[test]
fn a_command_is_found_however_a_shell_would_come_to_it() {
    let rules = rules(json!({ "rules": [
        { "tool": "shell", "command": "git push", "action": "deny" },
        { "tool": "shell", "command": "echo", "action": "allow" },
    ]}));
    for denied in [
        // Options, redirections and names of files between its words.
        "git -C . push",
        "git --no-pager -c color.ui=never push",
        "git >log push",
        "git 2>&1 push",
        "git &>log push",
        "/usr/bin/gi? push",
        // Quotes, comments and texts that end where a shell says.
        "echo \"$(git push)\"",
        "echo \"a `git push` b\"",
        "echo \"${x:-$(git push)}\"",
        "# don't\ngit push",
        "cat <<E\ndon't\nE\ngit push",
        "cat <<E\nit's $(git push) isn't\nE",
        "echo \"$(case x in a) git push;; esac)\"",
        "A+=b git push",
        "! git push",
        "diff <(git push) x",
        // What only a shell knows may be anything.
        "g=git; $g push",
        "x='git push'; $x",
        "a=push; git $a",
        "\"$g\" push",
        "`echo git` push",
        "{git,push}",
        "$'gi\\x74' push",
        "eval \"$x\"",
        "bash -c \"$x\"",
        // Lines that are run by others, or later.
        "env -S 'git push'",
        "env -iS'git push'",
        "env --split-string='git push'",
        "trap 'git push' EXIT",
        "alias p='git push'; p",
        "git -c alias.x='!git push' x",
        "git -c alias.x=push x",
        "git config alias.x '!git push'; git x",
        "git --config-env=alias.x=V x",
        "git -c core.sshCommand='git push' fetch",
        "git submodule foreach 'git push'",
        "git bisect run git push",
        "xargs git push",
        "echo push | xargs git",
        "uv run git push",
        // Texts for other interpreters.
        "python3 -c \"import os; os.system('git push')\"",
        "perl -e 'exec qw(git push)'",
        "awk 'BEGIN { system(\"git push\") }'",
        "python3 - <<'E'\nsubprocess.run(['git', 'push'])\nE",
        // Words and letters between that a shell takes away, or does not take for what they look like.
        "if ! git push; then :; fi",
        "while ! git push; do :; done",
        "until ! ! git push; do :; done",
        "!#; git push",
        "git <<<x push",
        "git <<< \"x y\" push",
        "bash <<< 'git push' x",
        "{\"git\",push}",
        "{git,\"push\"}",
        "{git,$'push'}",
        "git {\"push\",x}",
        "echo }#; git push",
        "set -- git push; \"$@\"",
        "a=(git push); \"${a[@]}\"",
        "eval \"echo \\'; git push; echo \\'\"",
        "bash -c \"echo \\'; git push; echo \\'\"",
        "echo ${x:-\"}\"}; git push; echo \"a\"",
        "echo ${x:-'}'}; git push; echo 'a'",
        "echo \"${x#'}'}\"; git push; echo 'a'",
        "echo $((1 # 2)); git push",
        "echo $[1 # 2]; git push",
        "(( 1 # 2 )); git push",
        "echo $((1 # \")\" )); git push",
        "echo \r#; git push",
        "git push\r\n",
        "cat <<$'E'\nE\ngit push\n$E",
        "cat <<\"E\\\"\"\n:\nE\"\ngit push",
        "cat <<E\r\n'\nE\r\ngit push",
        "trap -- 'git push' EXIT",
        "builtin trap 'git push' EXIT",
        "command trap -- 'git push' EXIT",
        "builtin alias p='git push'",
        "env -S 'git\\_push'",
        "git pus?",
        "git p*",
        "git [p]ush",
        "git @(push)",
        "/usr/bin/@(git) push",
        "/usr/bin/+(git) push",
        "/usr/bin/en? git push",
        "/usr/bin/* push",
        "*",
        "cat x | /bin/s?",
        "cat x | \"$SHELL\"",
        "bash /d?v/stdin",
        "PS4='$(git push)' bash -xc :",
        "PS4='$(git push)'; set -x; :",
        "export PS4='$(git push)'",
        "GIT_SSH_COMMAND='git push' git fetch",
        "x='$(git push)'; echo \"${x@P}\"",
        "mapfile -C 'git push' -c 1 x",
        "compgen -C 'git push'",
        // Others that run what they are told.
        "setarch -R git push",
        "linux64 git push",
        "linux32 git push",
        "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push",
        "sed '1e git push' x",
        "sed -e '/x/e git push' x",
        "sed 's/.*/git push/e' x",
        "sed -n 's/x/y/;s/.*/git push/ep' x",
        "sed e x",
        "tar cf x y --checkpoint=1 --checkpoint-action=exec='git push'",
        "tar cf x y -I 'git push'",
        "tar xf x --to-command 'git push'",
        "split --filter='git push' x",
        "ssh -o ProxyCommand='git push' x",
        "ssh -oProxyCommand='git push' x",
        "ssh -o 'ProxyCommand git push' x",
        "make -f -",
        "make -f- <x",
        "make --file=/dev/stdin",
        "make --eval='x:;git push'",
        "git ls-remote --upload-pa='git push' x",
    ] {
        assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
    }
    for asked in [
        "git status",
        "git commit -m 'push it'",
        "git log push",
        "python3 -c 'print(1)'",
        "python3 - <<'E'\nprint(1)\nE",
        "python3 -m json.tool",
        "grep -c bash x",
        "\"$CC\" -c x.c",
        "$HOME/bin/tool push",
        "cd $A/$B && ls",
        "sh script.sh",
        "bash -x script.sh a",
        "bash --version",
        "[ -f x ] && ls",
        "for f in *.rs; do wc \"$f\"; done",
        "if ! git status; then :; fi",
        "ls *.rs src/[a-z]*",
        "git add *.rs",
        "git show stash@{0}",
        "sed -i 's/git pull/git push/' x",
        "sed -n '1,5p' README.md",
        "sed -e 's/a/e/g' x",
        "tar czf x.tar.gz src",
        "make -f Makefile test",
        "echo $((1 + 2)) $((16#ff))",
        "i=0; while ((i < 3)); do ((i++)); done",
        "bash scripts/*.sh",
        "cat <<'E O F'\nx\nE O F\nls",
        "echo \"${x:-y}\" ${#x}",
        "printf \"a\\nb\"",
    ] {
        assert_eq!(shell(&rules, asked), ApprovalAction::Ask, "{asked}");
    }
}

#[test]
fn an_interpreter_that_reads_what_it_runs_counts_as_what_is_kept_from_running() {
    let line = |action: &str| {
        rules(json!({ "rules": [
            { "tool": "shell", "command": "git push", "action": action },
            { "tool": "shell", "command": "echo", "action": "allow" },
            { "tool": "shell", "command": "cat", "action": "allow" },
            { "tool": "shell", "command": "sh", "action": "allow" },
        ]}))
    };
    for read in [
        "echo 'Z2l0IHB1c2gK' | base64 -d | bash",
        "printf 'git pu%s' sh | sh",
        "echo x | bash -s",
        "echo x | bash -",
        "echo x | bash -o pipefail",
        "echo x | bash /dev/stdin",
        "bash /proc/self/fd/0 < x",
        "bash <(echo x)",
        ". /dev/stdin < x",
        "bash <<'E'\nls\nE",
        "bash < file",
        "bash <<< x",
        "cat x | sudo -n sh",
        "cat x | env -i bash",
        "cat x | xargs bash -c",
        "cat x | python3",
        "cat x | python3.12 -",
        "cat x | perl",
        "/bin/bash < x",
        "bash -c 'cat x | sh'",
    ] {
        assert_eq!(shell(&line("deny"), read), ApprovalAction::Deny, "{read}");
        assert_eq!(shell(&line("ask"), read), ApprovalAction::Ask, "{read}");
    }
    // Without a rule that keeps something from running, the rules that allow decide.
    let allowed = rules(json!({ "rules": [
        { "tool": "shell", "command": "echo", "action": "allow" },
        { "tool": "shell", "command": "bash", "action": "allow" },
    ]}));
    assert_eq!(shell(&allowed, "echo x | bash"), ApprovalAction::Allow);
}

#[test]
fn what_runs_others_is_allowed_only_with_what_it_runs() {
    let allow = |command: &str| {
        rules(json!({ "rules": [
            { "tool": "shell", "command": command, "action": "allow" },
            { "tool": "shell", "command": "echo", "action": "allow" },
        ]}))
    };
    for (rule, command, expected) in [
        ("ls", "echo 'git push' | bash", ApprovalAction::Ask),
        ("ls", "echo x | xargs git push", ApprovalAction::Ask),
        ("ls", "echo x | python3 -c 'import os'", ApprovalAction::Ask),
        ("ls", "echo x; sh script.sh", ApprovalAction::Ask),
        ("env", "env", ApprovalAction::Allow),
        ("env", "env bash -c 'rm x'", ApprovalAction::Ask),
        ("env", "env -S 'rm x'", ApprovalAction::Ask),
        ("timeout 5", "timeout 5 rm x", ApprovalAction::Ask),
        ("timeout 5 ls", "timeout 5 ls -l", ApprovalAction::Allow),
        ("sudo env", "sudo env rm x", ApprovalAction::Ask),
        ("uv run", "uv run python x.py", ApprovalAction::Ask),
        ("uv run python", "uv run python x.py", ApprovalAction::Allow),
        ("xargs", "echo x | xargs rm", ApprovalAction::Ask),
        ("find", "find . -name x", ApprovalAction::Allow),
        ("find", "find . -exec rm x \\;", ApprovalAction::Ask),
        ("git", "git status", ApprovalAction::Allow),
        ("git", "git -c alias.x='!rm x' x", ApprovalAction::Ask),
        ("git", "git config alias.x '!rm x'", ApprovalAction::Ask),
        ("python3", "python3 -c 'print(1)'", ApprovalAction::Allow),
        ("ls", "ls *.rs", ApprovalAction::Allow),
        ("ls *", "ls ?", ApprovalAction::Ask),
        (
            "git",
            "git ls-remote --upload-pack=./x y",
            ApprovalAction::Ask,
        ),
        ("git", "git fetch --upload-pa=./x", ApprovalAction::Ask),
        ("git", "git push --receive-pack ./x", ApprovalAction::Ask),
        ("git", "git ls-remote --exe=./x y", ApprovalAction::Ask),
        ("git", "git clone -u ./x y", ApprovalAction::Ask),
        ("git", "git clone -qu./x y", ApprovalAction::Ask),
        ("git", "git clone --conf core.x=y z", ApprovalAction::Ask),
        (
            "git",
            "git clone -ccore.fsmonitor=./x y",
            ApprovalAction::Ask,
        ),
        ("git", "git rebase -x ./x main", ApprovalAction::Ask),
        ("git rebase", "git rebase -ix ./x main", ApprovalAction::Ask),
        ("git", "git rebase --ex ./x main", ApprovalAction::Ask),
        ("git", "git config core.fsmonitor ./x", ApprovalAction::Ask),
        (
            "git",
            "git config --global core.pager ./x",
            ApprovalAction::Ask,
        ),
        ("git", "git config core.pager list", ApprovalAction::Ask),
        ("git", "git config set core.pager x", ApprovalAction::Ask),
        (
            "git config",
            "git config core.fsmonitor ./x",
            ApprovalAction::Ask,
        ),
        (
            "git config user.name",
            "git config user.name me",
            ApprovalAction::Allow,
        ),
        ("git", "git config --edit", ApprovalAction::Ask),
        ("git", "git config user.name", ApprovalAction::Allow),
        (
            "git",
            "git config --global --get user.name",
            ApprovalAction::Allow,
        ),
        ("git", "git config --list", ApprovalAction::Allow),
        ("git", "git submodule foreach ./x", ApprovalAction::Ask),
        ("git", "git bisect run ./x", ApprovalAction::Ask),
        ("git", "git grep -O./x y", ApprovalAction::Ask),
        (
            "git",
            "git log --format=x --output=.git/config",
            ApprovalAction::Ask,
        ),
        ("git", "git push -u origin main", ApprovalAction::Allow),
        ("git", "git log --oneline -5 -- src", ApprovalAction::Allow),
        ("git", "git commit --amend -m 'x y'", ApprovalAction::Allow),
        (
            "git rebase -x ls",
            "git rebase -x ls main",
            ApprovalAction::Allow,
        ),
        ("sed", "sed -n 1,5p x", ApprovalAction::Allow),
        ("sed", "sed '1e rm x' x", ApprovalAction::Ask),
        ("tar", "tar czf x.tgz src", ApprovalAction::Allow),
        (
            "tar",
            "tar cf x y --checkpoint-act=exec=./x",
            ApprovalAction::Ask,
        ),
        ("split", "split --filt=./x y", ApprovalAction::Ask),
        ("ssh", "ssh -oProxyCommand=./x y", ApprovalAction::Ask),
        ("make", "make -j4 test", ApprovalAction::Allow),
        ("make", "make -f -", ApprovalAction::Ask),
        ("setarch", "setarch -R ./x", ApprovalAction::Ask),
    ] {
        assert_eq!(shell(&allow(rule), command), expected, "{rule}: {command}");
    }
}

#[test]
fn a_relative_script_is_allowed_only_where_calls_are_usually_run() {
    let rules = rules(json!({ "rules": [
        { "tool": "shell", "command": "sh build.sh", "action": "allow" },
        { "tool": "shell", "command": "./build.sh", "action": "allow" },
        { "tool": "shell", "command": "sh /opt/build.sh", "action": "allow" },
        { "tool": "shell", "command": "ls", "action": "allow" },
        { "tool": "shell", "command": "cd", "action": "allow" },
        { "tool": "shell", "arguments": { "cwd": "sub" }, "command": "sh sub.sh", "action": "allow" },
    ]}));
    let on =
        |arguments: Value| rules.action_on(&call("shell", arguments), ToolPolicy::RequiresApproval);
    for command in ["sh build.sh", "./build.sh"] {
        assert_eq!(on(json!({ "command": command })), ApprovalAction::Allow);
        for moved in [
            json!({ "command": command, "cwd": "sub" }),
            json!({ "command": command, "cwd": 1 }),
            json!({ "command": format!("cd sub && {command}") }),
        ] {
            assert_eq!(on(moved.clone()), ApprovalAction::Ask, "{moved}");
        }
    }
    for command in ["sh /opt/build.sh", "ls", "sh sub.sh"] {
        let moved = json!({ "command": command, "cwd": "sub" });
        assert_eq!(on(moved), ApprovalAction::Allow, "{command}");
    }
}

#[test]
fn a_command_that_comes_word_by_word_is_read_too() {
    let rules = rules(json!({ "rules": [
        { "tool": "*", "command": "git push", "action": "deny" },
        { "tool": "*", "command": "ls", "action": "allow" },
    ]}));
    let on = |command: Value| {
        let call = call("exec", json!({ "command": command }));
        rules.action_on(&call, ToolPolicy::RequiresApproval)
    };
    assert_eq!(on(json!(["ls", "-l", "; rm x"])), ApprovalAction::Allow);
    assert_eq!(on(json!(["git", "push"])), ApprovalAction::Deny);
    assert_eq!(on(json!(["bash", "-lc", "git push"])), ApprovalAction::Deny);
    assert_eq!(on(json!(["bash", "-lc", "ls"])), ApprovalAction::Ask);
    assert_eq!(on(json!(["ls", 1])), ApprovalAction::Ask);
    assert_eq!(on(json!("time ".repeat(5_000))), ApprovalAction::Ask);
    // Where too much would have to be looked at, whatever is kept from running could be in it.
    for deep in ["bash -c ", "time ", "env -i ", "eval "] {
        assert_eq!(on(json!(deep.repeat(30_000))), ApprovalAction::Deny);
    }
    for deep in ["bash <<< ", "watch 'a b' ", "bash -c -o x "] {
        assert_eq!(on(json!(deep.repeat(30_000))), ApprovalAction::Deny);
    }
    assert_eq!(on(json!("eval ".repeat(500))), ApprovalAction::Deny);
    let large = format!("{}'{}'", "eval ".repeat(50), "x".repeat(100_000));
    assert_eq!(on(json!(large)), ApprovalAction::Deny);
    let hidden = format!("git push;{}", "a;".repeat(20_000));
    assert_eq!(on(json!(hidden)), ApprovalAction::Deny);
}

#[test]
fn only_programs_that_run_others_are_looked_through_and_never_to_allow() {
    let rules = rules(json!({ "rules": [
        { "tool": "*", "command": "/opt/tool run", "action": "deny" },
        { "tool": "*", "command": "git push", "action": "ask" },
        { "tool": "*", "command": "ls", "action": "allow" },
        { "tool": "*", "command": "echo", "action": "allow" },
    ]}));
    assert_eq!(shell(&rules, "echo git push"), ApprovalAction::Allow);
    assert_eq!(shell(&rules, "sudo echo git push"), ApprovalAction::Ask);
    assert_eq!(shell(&rules, "sudo ls"), ApprovalAction::Ask);
    for denied in [
        "/opt/tool run x",
        "/opt//tool run",
        "/opt/./x/../tool run",
        "cd /opt; ./tool run",
    ] {
        assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
    }
    assert_eq!(shell(&rules, "/usr/bin/tool run"), ApprovalAction::Ask);
}

#[test]
fn a_script_is_kept_from_running_however_its_path_is_written() {
    let rules = rules(json!({ "rules": [
        { "tool": "*", "command": "./deploy.sh", "action": "deny" },
        { "tool": "*", "command": "ls", "action": "allow" },
    ]}));
    for denied in [
        "./deploy.sh",
        ".//deploy.sh now",
        "././deploy.sh",
        "../ws/deploy.sh",
        "/home/me/ws/deploy.sh",
        "$PWD/deploy.sh",
        "deploy.sh",
        "sh deploy.sh",
        ". ./deploy.sh",
        "bash -x ../ws/deploy.sh",
        "sudo ./deploy.sh",
    ] {
        assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
    }
    assert_eq!(shell(&rules, "ls deploy.sh"), ApprovalAction::Allow);
    assert_eq!(shell(&rules, "./build.sh deploy.sh"), ApprovalAction::Ask);
}

#[test]
fn arguments_are_matched_by_pattern_and_paths_that_wander_are_not_let_through() {
    let rules = rules(json!({ "rules": [
        { "tool": "write", "arguments": { "path": "docs/**" }, "action": "allow" },
        { "tool": "*", "arguments": { "path": "**/secret*" }, "action": "deny" },
        { "tool": "mcp__*", "action": "ask" },
    ]}));
    let on = |name: &str, path: &str, policy| {
        rules.action_on(&call(name, json!({ "path": path })), policy)
    };
    let asks = ToolPolicy::RequiresApproval;
    assert_eq!(on("write", "docs/a/b.md", asks), ApprovalAction::Allow);
    for wandering in ["docs/../src/a.rs", "/docs/a", "src/docs/a", "docs/./../x"] {
        assert_eq!(
            on("write", wandering, asks),
            ApprovalAction::Ask,
            "{wandering}"
        );
    }
    for secret in ["docs/secret.md", "x/./secret", "a//b/secret1", "/x/secret"] {
        assert_eq!(
            on("read", secret, ToolPolicy::Auto),
            ApprovalAction::Deny,
            "{secret}"
        );
    }
    assert_eq!(on("mcp__x__y", "a", ToolPolicy::Auto), ApprovalAction::Ask);
    assert!(!rules.refuses_all_of("read"), "only some of its calls");
}

#[test]
fn a_path_is_kept_from_tools_however_it_is_written() {
    let rules = rules(json!({ "rules": [
        { "tool": "*", "arguments": { "path": ".github/**" }, "action": "deny" },
        { "tool": "*", "arguments": { "path": "./secret/**" }, "action": "deny" },
        { "tool": "*", "arguments": { "path": "/etc/**" }, "action": "deny" },
        { "tool": "many", "arguments": { "paths": "secret/**" }, "action": "deny" },
        { "tool": "grep", "arguments": { "path": "src/*/keys/**" }, "action": "ask" },
        { "tool": "*", "arguments": { "path": "docs/**" }, "action": "allow" },
        { "tool": "many", "arguments": { "paths": "docs/**" }, "action": "allow" },
    ]}));
    let on = |name: &str, arguments: Value, policy| rules.action_on(&call(name, arguments), policy);
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
        let action = on("write", json!({ "path": denied }), ToolPolicy::Auto);
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
        let action = on("read", json!({ "path": free }), ToolPolicy::Auto);
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
        assert_eq!(
            on("many", call, ToolPolicy::RequiresApproval),
            action,
            "{paths}"
        );
    }
    // What looks through everything below a directory may come to what is kept.
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
        assert_eq!(on(name, arguments, ToolPolicy::Auto), action, "{said}");
    }
}

#[test]
fn a_rule_that_could_not_be_meant_is_refused() {
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
