//! How prefixes match, however a URL spells its path.

use super::*;

#[test]
fn r64_a_prefix_ends_at_a_path_segment() {
    for pattern in [
        "https://x.com/api",
        "https://x.com/api/",
        "HTTPS://X.com:443//api",
    ] {
        check(
            &only(pattern),
            &[
                "https://x.com/api",
                "https://x.com/api/",
                "https://x.com:443/api/v1?q",
            ],
            &[
                "https://x.com/apix",
                "https://x.com/",
                "https://x.com/API",
                "https://x.com/api/../admin",
                "http://x.com/api",
                "https://x.com:8443/api",
                "https://y.com/api",
            ],
        );
    }
}

#[test]
fn r65_blocked_patterns_match_every_spelling() {
    check(
        &without("evil.com"),
        &["https://good.com/"],
        &[
            "https://evil.com./",
            "https://u:p@EVIL.com/",
            "https://%65vil.com/",
            "https://ｅvil.com/",
        ],
    );
    check(
        &without("https://x.com/admin"),
        &[
            "https://x.com/",
            "https://x.com/administrator",
            "https://x.com/Admin",
        ],
        &[
            "https://u:p@x.com/admin",
            "https://x.com./admin/",
            "https://x.com//admin",
            "https://x.com/%61dmin",
            "https://x.com/%2561dmin",
            "https://x.com/%25252525252561dmin",
            "https://x.com/./a/../admin/users",
            "https:\\\\x.com\\admin",
            "https://x.com/ad\tmin",
            "https://x.com:443/admin?x#y",
        ],
    );
}

#[test]
fn r65_allowed_patterns_match_every_spelling() {
    check(
        &only("https://x.com/%7euser/caf%c3%a9"),
        &[
            "https://x.com/~user/café",
            "https://x.com/%7Euser//caf%C3%A9/menu",
        ],
        &["https://x.com/~user/cafe", "https://x.com/%257Euser/café"],
    );
}

#[test]
fn r66_an_encoded_separator_never_matches_an_allowed_prefix() {
    check(
        &only("https://x.com/api"),
        &[
            "https://x.com/api/v1",
            "https://x.com/b/../api",
            "https://x.com/api/100%25",
        ],
        &[
            "https://x.com/api%2F..%2Fadmin",
            "https://x.com/api/%2F..%2Fadmin",
            "https://x.com/api/..%5cadmin",
            "https://x.com/api/a%2fb",
            "https://x.com/api/a%252Fb",
            "https://x.com/api/%2e%2e/api/v1",
            "https://x.com/api/.%2E/admin",
            "https://x.com/api/%252e%252e/admin",
            "https://x.com/api/%2525252525252e/admin",
            "https://x.com/api/..;/admin",
            "https://x.com/api//../admin",
            "https://x.com/a%2Fb/../api",
            "https://x.com/api/v1/%2e ",
            "https://x.com/api/%2\te/v1",
        ],
    );
}

#[test]
fn r66_an_encoded_separator_does_not_hide_from_a_blocked_prefix() {
    check(
        &without("https://x.com/admin"),
        &["https://x.com/projects/a%2Fb", "https://y.com/a/..%2Fadmin"],
        &[
            "https://x.com/admin%2Fusers",
            "https://x.com/%2Fadmin",
            "https://x.com/%5Cadmin",
            "https://x.com/a/..%2Fadmin",
            "https://x.com/a%2F..%2Fadmin",
            "https://x.com/a/%252e%252e/admin",
            "https://x.com/admin/a//../..",
        ],
    );
}

#[test]
fn r66_prefix_without_a_path_matches_every_path() {
    check(
        &only("https://x.com/"),
        &["https://x.com/a%2Fb", "https://x.com//../%2e%2e"],
        &[],
    );
}

#[test]
fn percent_sign_without_an_escape_is_literal() {
    let urls = ["https://x.com/100%", "https://x.com/100%25/a"];
    for pattern in ["https://x.com/100%", "https://x.com/100%25"] {
        check(&only(pattern), &urls, &["https://x.com/100"]);
        check(&without(pattern), &["https://x.com/100"], &urls);
    }
}
