//! Rewrites messages of the TOML parser without names of Rust types.

/// Rewrites `invalid type: integer `1`, expected a string` and `missing field `x``; `None` for other messages.
pub(crate) fn in_plain_words(message: &str) -> Option<String> {
    if let Some(field) = message.strip_prefix("missing field ") {
        return Some(format!("{field} is missing"));
    }
    if message == "wanted string or table" {
        return Some("a text in quotes is expected".to_owned());
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let rest = kinds.iter().find_map(|kind| message.strip_prefix(kind))?;
    let (value, expected) = rest.rsplit_once(", expected ")?;
    Some(format!(
        "it is {}, but {} is expected",
        describe_value(value),
        describe_type(expected)
    ))
}

fn describe_value(value: &str) -> String {
    let quoted = value.split('`').nth(1);
    match (value.split(' ').next().unwrap_or_default(), quoted) {
        ("integer" | "floating", Some(number)) => format!("the number {number}"),
        ("boolean", Some(word)) => word.to_owned(),
        ("string", _) => "a text".to_owned(),
        ("sequence", _) => "a list".to_owned(),
        ("map", _) => "a table".to_owned(),
        _ => value.to_owned(),
    }
}

fn describe_type(expected: &str) -> &str {
    match expected {
        "usize" | "u64" => "a whole number, 0 or more,",
        "u32" => "a whole number from 0 to 4294967295",
        "u16" => "a whole number from 0 to 65535",
        "u8" => "a whole number from 0 to 255",
        "f64" | "f32" => "a number",
        "a string" | "path string" => "a text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list in brackets",
        "a map" => "a table",
        table if table.starts_with("struct ") => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    #[test]
    fn messages_name_no_rust_types() {
        for (text, expected) in [
            (
                "model = 1",
                "it is the number 1, but a text in quotes is expected",
            ),
            (
                "ca_file = true",
                "it is true, but a text in quotes is expected",
            ),
            (
                "models = 'x'",
                "it is a text, but a list in brackets is expected",
            ),
            ("limits = 3", "it is the number 3, but a table is expected"),
            ("environments = []", "it is a list, but a table is expected"),
            (
                "[limits]\nthreads = 1.5",
                "it is the number 1.5, but a whole number, 0 or more, is expected",
            ),
            (
                "[limits]\nthreads = 99999999999999999999",
                "it is the number 99999999999999999999, but a whole number, 0 or more, is expected",
            ),
            (
                "[retention]\nmax_age_days = 4294967296",
                "it is the number 4294967296, but a whole number from 0 to 4294967295 is expected",
            ),
            (
                "[budget]\nday_usd = 'x'",
                "it is a text, but a number is expected",
            ),
            (
                "[compaction]\nenabled = 'yes'",
                "it is a text, but true or false is expected",
            ),
            ("[environments.x]", "`root` is missing"),
            (
                "[environments.x]\nroot = 1",
                "it is the number 1, but a text in quotes is expected",
            ),
            ("[shell]\nsandbox = 1", "a text in quotes is expected"),
        ] {
            let message = Config::parse(text, Path::new("")).unwrap_err().message;
            assert_eq!(message, expected, "{text}");
        }
    }
}
