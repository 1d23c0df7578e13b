//! Calls of a hostile model, with values that are known to have caused bugs.

use serde_json::{Value, json};
use windlass_core::tools::ToolCall;

use crate::random::Random;

/// A text that is created when it is used, because some are long.
type Text = fn() -> String;

const PATHS: &[Text] = &[
    || "../outside/secret".to_owned(),
    || "../../../../../../etc/passwd".to_owned(),
    || "link/secret".to_owned(),
    || "link".to_owned(),
    || "/etc/shadow".to_owned(),
    || "/proc/self/environ".to_owned(),
    || "/proc/self/mem".to_owned(),
    || "/proc/self/root/etc/passwd".to_owned(),
    || "/dev/zero".to_owned(),
    || "/dev/stdin".to_owned(),
    || "pipe".to_owned(),
    || "a/../../outside/secret".to_owned(),
    || "./././.".to_owned(),
    || String::new(),
    || "\0".to_owned(),
    || "a\nb".to_owned(),
    || "\u{202e}txt.exe".to_owned(),
    || "~/.ssh/id_rsa".to_owned(),
    || "x/".repeat(3000),
    || "x".repeat(300),
    || "big".to_owned(),
    || "own.txt".to_owned(),
    || "deep".to_owned(),
    || ".gitignore".to_owned(),
    || ".git/config".to_owned(),
];

const PATTERNS: &[Text] = &[
    || "{".repeat(20_000) + &"}".repeat(20_000),
    || "{a,".repeat(2000) + &"}".repeat(2000),
    || "**/".repeat(1000) + "*",
    || "[".repeat(4000),
    || "[!".to_owned() + &"a-z".repeat(1000) + "]",
    || "*".repeat(4000),
    || "(a*)*b".to_owned(),
    || "(x+x+)+y".to_owned(),
    || "a{1000}{1000}{1000}".to_owned(),
    || "(?:".repeat(3000) + &")".repeat(3000),
    || "\\p{L}{500}".repeat(50),
    || "(?i)".to_owned() + &"ſK".repeat(2000),
    || "\\".repeat(4001),
    || "../**/secret".to_owned(),
    || "/etc/**".to_owned(),
    || "**".to_owned(),
    || "\0".to_owned(),
    || String::new(),
];

const TEXTS: &[Text] = &[
    || "x".repeat(1_000_000),
    || "{".repeat(40_000),
    || "\u{1b}]0;owned\u{7}\u{1b}[2J".to_owned(),
    || "a\r\nb\0c".to_owned(),
    || "*\n!*\n".repeat(10_000),
    || "[core]\n\tfsmonitor = touch ../outside/made\n".to_owned(),
    || String::new(),
    || "own".to_owned(),
];

/// Commands that end on their own or at their time limit. None of them is dangerous to a machine without a sandbox.
const COMMANDS: &[Text] = &[
    || "cat ../outside/secret ../outside/data/secrets.key /etc/shadow".to_owned(),
    || {
        "echo owned > ../outside/secret; echo owned > ../outside/made; rm -rf ../outside ../honest"
            .to_owned()
    },
    || "ln -sf ../outside out; cat out/secret; echo x > out/secret; mv out link2".to_owned(),
    || "mv ../outside ../elsewhere; mv . ../moved; rmdir ../honest".to_owned(),
    || {
        "for n in 1 2 3 4 5 6 7 8; do setsid -f sleep 300; done; (sleep 300 &) ; exec sleep 300"
            .to_owned()
    },
    || "env -i setsid -f sh -c 'trap \"\" TERM INT HUP; sleep 300' >/dev/null 2>&1".to_owned(),
    || "kill -9 $PPID; kill -TERM $PPID; kill -STOP $PPID".to_owned(),
    || "yes owned | head -c 20000000".to_owned(),
    || "head -c 50000000 /dev/zero | tr '\\0' '\\033'".to_owned(),
    || {
        "head -c 2000000 /dev/zero > big; mkdir -p deep/$(printf 'd/%.0s' $(seq 200)); mkfifo pipe"
            .to_owned()
    },
    || {
        "rm -rf deep big; git init -q . ; git config core.fsmonitor 'touch ../outside/made'; git status".to_owned()
    },
    || "printf '{%.0s' $(seq 40000) > .gitignore".to_owned(),
    || "rm -f .gitignore; echo 'own' > own.txt".to_owned(),
    || "prlimit --pid $PPID --nofile=1:1; renice -n 19 -p $PPID".to_owned(),
    || "unshare -rm true; mount --bind ../outside . ; chroot . true".to_owned(),
    || "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | head -c 100000".to_owned(),
    || "exec 3<>/dev/tcp/127.0.0.1/22; cat <&3".to_owned(),
    || "ulimit -n 4; ulimit -u 5; ls -la; exit 255".to_owned(),
    || "kill -9 $$".to_owned(),
    || "exec >&- 2>&-; sleep 300".to_owned(),
    || "while :; do :; done".to_owned(),
    || "\0".to_owned(),
    || "'".to_owned(),
    || "x".repeat(200_000),
];

const NUMBERS: &[fn() -> Value] = &[
    || json!(-1),
    || json!(0),
    || json!(i64::MAX),
    || json!(u64::MAX),
    || json!(1e308),
    || json!(0.5),
    || json!("7"),
    || json!(1),
    || json!(100),
];

/// Values of an unexpected type.
const ODD: &[fn() -> Value] = &[
    || Value::Null,
    || json!([]),
    || json!({}),
    || json!("text"),
    || json!([[[[[["deep"]]]]]]),
    || json!({"__proto__": {"admin": true}, "$ref": "#"}),
    || nested(60),
    || nested(120),
    || json!(vec![json!({"path": "a"}); 5000]),
];

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

/// The tools, and the fields that they take.
const TOOLS: &[(&str, &[(&str, Kind)])] = &[
    (
        "read",
        &[
            ("path", Kind::Path),
            ("start_line", Kind::Number),
            ("lines", Kind::Number),
        ],
    ),
    ("write", &[("path", Kind::Path), ("content", Kind::Text)]),
    (
        "edit",
        &[
            ("path", Kind::Path),
            ("old_string", Kind::Text),
            ("new_string", Kind::Text),
            ("replace_all", Kind::Odd),
        ],
    ),
    ("list", &[("path", Kind::Path)]),
    (
        "glob",
        &[
            ("pattern", Kind::Pattern),
            ("path", Kind::Path),
            ("include_ignored", Kind::Odd),
        ],
    ),
    (
        "grep",
        &[
            ("pattern", Kind::Pattern),
            ("path", Kind::Path),
            ("glob", Kind::Pattern),
            ("context", Kind::Number),
            ("limit", Kind::Number),
        ],
    ),
    (
        "shell",
        &[
            ("command", Kind::Command),
            ("cwd", Kind::Path),
            ("timeout_ms", Kind::Number),
        ],
    ),
    ("shell", &[("command", Kind::Command)]),
    ("no_such_tool", &[("path", Kind::Path)]),
];

/// The type of a field.
#[derive(Clone, Copy)]
enum Kind {
    Path,
    Pattern,
    Text,
    Command,
    Number,
    Odd,
}

impl Kind {
    fn value(self, random: &mut Random) -> Value {
        let text = |of: &[Text], random: &mut Random| Value::String(one(of, random)());
        // Occasionally a value of an unexpected type.
        if random.below(12) == 0 {
            return one(ODD, random)();
        }
        match self {
            Self::Path => text(PATHS, random),
            Self::Pattern => text(PATTERNS, random),
            Self::Text => text(TEXTS, random),
            Self::Command => text(COMMANDS, random),
            Self::Number => one(NUMBERS, random)(),
            Self::Odd => one(ODD, random)(),
        }
    }
}

fn one<'a, T>(of: &'a [T], random: &mut Random) -> &'a T {
    let at = random.below(of.len() as u64);
    &of[usize::try_from(at).unwrap_or(0)]
}

/// Some calls of one answer.
pub(super) fn calls(random: &mut Random) -> Vec<ToolCall> {
    let count = 1 + random.below(4);
    let call = |n| {
        let (name, fields) = one(TOOLS, random);
        let arguments = match random.below(20) {
            0 => one(ODD, random)(),
            _ => fields
                .iter()
                .enumerate()
                // The first field is always present.
                .filter_map(|(at, (name, kind))| {
                    let is_there = at == 0 || random.below(2) == 0;
                    is_there.then(|| ((*name).to_owned(), kind.value(random)))
                })
                .collect(),
        };
        ToolCall {
            id: format!("call_{n}"),
            name: (*name).to_owned(),
            arguments,
        }
    };
    (0..count).map(call).collect()
}
