//! Texts of `windlass.toml`.

use std::path::Path;

use windlass_config::Config;

use super::bytes::Bytes;

/// Replaces a key in the generated configuration.
const KEY: &str = "sk-not-to-be-shown";

const DATE: &str = "2026-01-02T03:04:05Z";

const LARGE: [&str; 2] = ["18446744073709551615", "9223372036854775808"];

const SECTIONS: [&str; 12] = [
    "limits",
    "runs",
    "shell",
    "retention",
    "providers",
    "providers.openai",
    "providers.\"ä.b\"",
    "providers.anthropic",
    "[providers]",
    "unknown",
    "limits.deep",
    "",
];

const NAMES: [&str; 24] = [
    "model",
    "models",
    "unknown_models",
    "secrets_key_file",
    "proxy",
    "ca_file",
    "prices_file",
    "limits.body_bytes",
    "body_bytes",
    "threads",
    "wait_seconds",
    "grace_ms",
    "keep_days",
    "sandbox",
    "max_memory_mb",
    "enabled",
    "max_mb",
    "max_bytes",
    "every_minutes",
    "api_key",
    "base_url",
    "max_parallel_calls",
    "\"\"",
    "unknown",
];

/// A text is read, or refused with a line that it has. It says the same with its keys in another order, and no key of a provider
/// is shown, neither by an error nor by `Debug`.
pub fn configuration(data: &[u8]) {
    let text = text(&mut Bytes::new(data));
    let from = Path::new("");
    let read = Config::parse(&text, from);
    // A table holds its names in order, not in that of the text.
    let ordered = toml::from_str::<toml::Table>(&text).and_then(toml::Table::try_into::<Config>);
    match (&read, &ordered) {
        (Ok(read), Ok(ordered)) => assert_eq!(read, ordered, "{text}"),
        (Err(error), Err(_)) => {
            let lines = text.matches('\n').count() + 1;
            assert!((1..=lines).contains(&error.line), "{error}: {text}");
            assert!(!error.message.is_empty(), "{text}");
        }
        // A table gives a date away as a text, where a text is wanted; the text of the file does not.
        (Err(_), Ok(_)) if text.contains(DATE) => {}
        // A table holds no number of 64 bits without a sign; the text of the file does.
        (Ok(_), Err(_)) if LARGE.iter().any(|number| text.contains(number)) => {}
        _ => panic!("the order of keys counts: {read:?}, {ordered:?}: {text}"),
    }
    let shown = match &read {
        Ok(config) => format!("{config:?}"),
        Err(error) => error.to_string(),
    };
    assert!(!shown.contains(KEY), "{shown}");
}

fn text(bytes: &mut Bytes<'_>) -> String {
    let mut text = String::new();
    if bytes.one_in(16) {
        text.push('\u{feff}');
    }
    for _ in 0..bytes.below(8) {
        match bytes.below(12) {
            0..=2 => text.push_str(&format!("[{}]", bytes.word(&SECTIONS))),
            3 => text.push_str(&String::from_utf8_lossy(bytes.take(10))),
            4 => {
                let times = bytes.times(20_000);
                text.push_str(&format!("{} = 1", ["a"].repeat(times.max(1)).join(".")));
            }
            5 => text.push_str(&format!("providers.openai.api_key = \"{KEY}\"")),
            6 => text.push_str(&format!("api_key = {}", shown_nowhere(bytes))),
            7 => text.push_str(&format!("providers.openai = {}", shown_nowhere(bytes))),
            _ => {
                let name = bytes.word(&NAMES);
                text.push_str(&format!("{name} = {}", value(bytes)));
            }
        }
        text.push_str(bytes.word(&["\n", "\n", "\n", "\r\n", "\r", " # ä\n", ""]));
    }
    text
}

/// A key, written well or not.
fn shown_nowhere(bytes: &mut Bytes<'_>) -> String {
    match bytes.below(6) {
        0 | 1 => format!("\"{KEY}\""),
        2 => format!("[\"{KEY}\"]"),
        3 => format!("{{ api_key = \"{KEY}\" }}"),
        4 => format!("'''{KEY}\n'''"),
        _ => KEY.to_owned(),
    }
}

fn value(bytes: &mut Bytes<'_>) -> String {
    let plain = [
        "0",
        "1",
        "-1",
        LARGE[0],
        "9223372036854775807",
        LARGE[1],
        "-9223372036854775808",
        "1e400",
        "nan",
        "-inf",
        "0x_1",
        "1_000",
        "true",
        DATE,
        "\"a/b\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "'c:\\x'",
        "\"refuse\"",
        "\"landlock\"",
        "[\"a/b\", \"c\"]",
        "{}",
        "\"\"\"\n\\\n\"\"\"",
    ];
    match bytes.below(8) {
        0..=5 => bytes.word(&plain).to_owned(),
        6 => {
            let (open, close) = if bytes.one_in(2) {
                ("[", "]")
            } else {
                ("{ a = ", "}")
            };
            let times = bytes.times(20_000);
            format!("{}1{}", open.repeat(times), close.repeat(times))
        }
        _ => format!("\"{}\"", "ä".repeat(bytes.times(3_000))),
    }
}
