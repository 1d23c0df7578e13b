//! The tree of a session's files, and the look-up of paths in it.

use std::collections::BTreeMap;

use chrono::Utc;
use uuid::Uuid;

use crate::files::content::Content;
use crate::files::path::segments;
use crate::files::quota::Usage;
use crate::files::view::Meta;

/// All files of one session.
pub(super) struct FileTree {
    pub(super) root: Directory,
    pub(super) usage: Usage,
}

pub(super) struct Directory {
    pub(super) meta: Meta,
    pub(super) children: BTreeMap<Box<str>, Node>,
}

pub(super) struct File {
    pub(super) meta: Meta,
    pub(super) is_readonly: bool,
    pub(super) content: Content,
}

pub(super) enum Node {
    File(File),
    Directory(Box<Directory>),
}

/// The entry at a path.
pub(super) enum TreeEntry<'a> {
    File(&'a File),
    Directory(&'a Directory),
    /// The path does not exist, nor do `parents` of its directories.
    Missing {
        parents: u64,
    },
    /// The path cannot exist, because its ancestor `file` is a file.
    BelowFile {
        file: &'a str,
    },
}

/// Builds the metadata of a new entry.
pub(super) fn new_meta() -> Meta {
    let now = Utc::now();
    Meta {
        id: Uuid::now_v7(),
        created_at: now,
        updated_at: now,
    }
}

impl Directory {
    pub(super) fn new(meta: Meta) -> Self {
        Self {
            meta,
            children: BTreeMap::new(),
        }
    }
}

impl Default for FileTree {
    fn default() -> Self {
        // The root exists without being created, so it has no ID.
        let meta = Meta {
            id: Uuid::nil(),
            ..new_meta()
        };
        Self {
            root: Directory::new(meta),
            usage: Usage::default(),
        }
    }
}

impl FileTree {
    /// Finds the entry at a normalised path.
    pub(super) fn find<'a>(&'a self, path: &'a str) -> TreeEntry<'a> {
        let mut directory = &self.root;
        let mut names = segments(path);
        let mut end = 0;
        while let Some(name) = names.next() {
            end += 1 + name.len();
            match directory.children.get(name) {
                Some(Node::Directory(child)) => directory = child,
                Some(Node::File(file)) if end == path.len() => return TreeEntry::File(file),
                Some(Node::File(_)) => return TreeEntry::BelowFile { file: &path[..end] },
                None => {
                    return TreeEntry::Missing {
                        parents: names.count() as u64,
                    };
                }
            }
        }
        TreeEntry::Directory(directory)
    }
}
