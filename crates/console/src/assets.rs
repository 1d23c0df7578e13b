//! Assets by name.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::{Answer, ROOT};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// Segment of addresses whose content may change.
const UNPINNED: &str = "dev";

/// The files that pages load.
#[derive(Debug, Clone)]
pub enum Assets {
    /// The files of the build. Their address contains their digest, so that browsers can cache them without end.
    Embedded,
    /// The files of a directory, read for each request. Browsers do not cache them.
    Directory(PathBuf),
}

impl Default for Assets {
    /// A debug build reads the source directory if it exists, so that a changed file needs no build.
    fn default() -> Self {
        let source = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"));
        if cfg!(debug_assertions) && source.is_dir() {
            Self::Directory(source)
        } else {
            Self::Embedded
        }
    }
}

impl Assets {
    /// Lists the names of the embedded files with their contents.
    #[must_use]
    pub fn embedded() -> &'static [(&'static str, &'static [u8])] {
        embedded::FILES
    }

    /// The path to which names are added.
    pub(crate) fn base(&self) -> String {
        let version = match self {
            Self::Embedded => embedded::DIGEST,
            Self::Directory(_) => UNPINNED,
        };
        format!("{ROOT}/assets/{version}")
    }

    /// Answers a request for `<version>/<name>`.
    pub(crate) fn answer(&self, path: &str) -> Answer {
        let found = path
            .split_once('/')
            .filter(|(_, name)| is_name(name))
            .and_then(|(version, name)| Some((self.content(version, name)?, media_type(name)?)));
        let Some((body, content_type)) = found else {
            return Answer {
                status: 404,
                content_type: "text/plain; charset=utf-8",
                cache_control: "no-store",
                body: Cow::Borrowed(b"there is no such asset\n"),
            };
        };
        Answer {
            status: 200,
            content_type,
            cache_control: match self {
                Self::Embedded => "public, max-age=31536000, immutable",
                Self::Directory(_) => "no-store",
            },
            body,
        }
    }

    fn content(&self, version: &str, name: &str) -> Option<Cow<'static, [u8]>> {
        match self {
            Self::Embedded => {
                let mut files = embedded::FILES.iter();
                let file = files.find(|(known, _)| version == embedded::DIGEST && *known == name);
                file.map(|(_, content)| Cow::Borrowed(*content))
            }
            Self::Directory(root) => std::fs::read(root.join(name)).ok().map(Cow::Owned),
        }
    }
}

/// A relative path without hidden names, which cannot leave its directory.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let mut segments = name.split('/');
    segments.all(|segment| {
        !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(is_plain)
    })
}

fn media_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" | "webmanifest" => "application/json",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_asset_is_immutable_at_the_address_of_the_shell() {
        let path = format!("{}/boot.js", embedded::DIGEST);
        let answer = Assets::Embedded.answer(&path);
        assert_eq!(
            (answer.status, answer.content_type),
            (200, "text/javascript; charset=utf-8")
        );
        assert!(answer.cache_control.contains("immutable"));
        assert!(Assets::Embedded.base().ends_with(embedded::DIGEST));
        let other = Assets::Embedded.answer("00000000000000000000000000000000/boot.js");
        assert_eq!(other.status, 404);
    }

    #[test]
    fn name_cannot_leave_the_directory() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("assets");
        std::fs::create_dir_all(root.join("ui")).unwrap();
        std::fs::write(outside.path().join("secret.js"), "no").unwrap();
        std::fs::write(root.join("ui/.hidden.js"), "no").unwrap();
        std::fs::write(root.join("ui/list.js"), "yes").unwrap();
        let assets = Assets::Directory(root);
        assert_eq!(*assets.answer("dev/ui/list.js").body, *b"yes");
        for name in [
            "../secret.js",
            "ui/../../secret.js",
            "/secret.js",
            "ui/.hidden.js",
            "ui//list.js",
            "%2e%2e/secret.js",
            "ui/list.js\0",
            "ui",
            "",
        ] {
            assert_eq!(
                assets.answer(&format!("dev/{name}")).status,
                404,
                "{name:?}"
            );
        }
    }
}
