//! Valid patterns, and the errors for invalid ones.

use super::*;

#[test]
fn r68_valid_patterns_are_accepted() {
    let patterns = [
        "example.com",
        "EXAMPLE.com.",
        "bücher.example",
        "*.example.com:8443",
        "localhost:8080",
        "127.0.0.1",
        "[::1]",
        "[::1]:8080",
        "*",
        "*:443",
        "http://example.com",
        "https://*.example.com:8443/v1/",
        "https://[::1]/a b",
    ];
    for pattern in patterns {
        assert_eq!(only(pattern).validate(), Ok(()), "{pattern}");
        assert_eq!(without(pattern).validate(), Ok(()), "{pattern}");
    }
}

#[test]
fn r68_invalid_patterns_are_refused() {
    use PatternProblem::*;
    let check = |problem: PatternProblem, patterns: &[&str]| {
        for pattern in patterns {
            let refused = Err(InvalidPattern {
                pattern: (*pattern).to_owned(),
                problem,
            });
            assert_eq!(only(pattern).validate(), refused);
            assert_eq!(without(pattern).validate(), refused);
        }
    };
    check(Empty, &[""]);
    check(
        Scheme,
        &["ftp://example.com", "file:///etc", "://example.com"],
    );
    check(
        Host,
        &[
            " ",
            " example.com",
            "a..com",
            ".",
            "*.",
            "[::1]x",
            "https://",
            "https:///a",
            "u@example.com",
            "256.1.1.1",
        ],
    );
    check(Colons, &["::1", "[::1", "fe80::1:8080", "a:1:2"]);
    check(
        Port,
        &[
            "example.com:",
            "example.com:+80",
            "example.com:65536",
            "example.com:http",
            "[::1]:",
        ],
    );
    check(
        Wildcard,
        &[
            "**",
            "*example.com",
            "api.*.com",
            "*.*.com",
            "*.127.0.0.1",
            "https://x.com/api/*",
            "https://x.*/",
        ],
    );
    check(
        PathWithoutScheme,
        &["example.com/api", "10.0.0.0/8", "/api"],
    );
    check(
        Extra,
        &[
            "https://u:p@x.com/",
            "https://x.com/a?b=c",
            "https://x.com?a",
            "https://x.com/a#b",
        ],
    );
    check(
        Path,
        &[
            "https://x.com/a%2Fb",
            "https://x.com/%2e%2e/a",
            "https://x.com/%2561",
            "https://x.com/a//../b",
        ],
    );
}

#[test]
fn refusal_names_the_pattern_and_the_remedy() {
    let message = |pattern| only(pattern).validate().unwrap_err().to_string();
    assert_eq!(
        message("::1"),
        "network access pattern `::1` has several colons; \
         put an IPv6 address in brackets, as in `[::1]` or `[::1]:8080`"
    );
}
