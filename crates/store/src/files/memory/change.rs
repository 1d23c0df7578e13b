//! Changes of a tree: each is checked completely before anything is modified.

use std::collections::btree_map::Entry;

use chrono::Utc;
use windlass_core::error::Result;
use windlass_core::typed_id::SessionId;

use super::tree::{Directory, File, FileTree, Node, TreeEntry, new_meta};
use crate::files::content::Content;
use crate::files::path::{join, segments, split_last};
use crate::files::quota::{FileQuota, Usage};
use crate::files::rules;
use crate::files::view::Meta;
use crate::files::writer::WriteOrigin;

impl FileTree {
    /// Writes a file and creates its parents.
    pub(super) fn write(
        &mut self,
        session_id: SessionId,
        path: &str,
        content: Content,
        writer: WriteOrigin,
        quota: &FileQuota,
    ) -> Result<&File> {
        let mut after = self.usage;
        match self.find(path) {
            TreeEntry::Directory(_) => return Err(rules::is_directory(path)),
            TreeEntry::BelowFile { file } => return Err(rules::below_file(file, path)),
            TreeEntry::File(file) if file.is_readonly && writer == WriteOrigin::Caller => {
                return Err(rules::read_only(path));
            }
            TreeEntry::File(file) => after.bytes -= file.content.len(),
            TreeEntry::Missing { parents } => {
                after.files += 1;
                after.directories += parents;
            }
        }
        after.bytes += content.len();
        quota.check(session_id, self.usage, after)?;
        let (parent, name) = split_last(path).ok_or_else(|| rules::is_directory(path))?;

        self.usage = after;
        let file = File {
            meta: new_meta(),
            is_readonly: writer.marks_read_only(),
            content,
        };
        let node = match self.make_directories(parent).children.entry(name.into()) {
            Entry::Vacant(vacant) => vacant.insert(Node::File(file)),
            Entry::Occupied(occupied) => {
                let node = occupied.into_mut();
                *node = Node::File(file.in_place_of(node));
                node
            }
        };
        match node {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(rules::is_directory(path)),
        }
    }

    /// Creates a directory and its parents; an existing directory is no error.
    pub(super) fn create_directory(
        &mut self,
        session_id: SessionId,
        path: &str,
        quota: &FileQuota,
    ) -> Result<&Directory> {
        let mut after = self.usage;
        match self.find(path) {
            TreeEntry::File(_) => return Err(rules::is_file(path)),
            TreeEntry::BelowFile { file } => return Err(rules::below_file(file, path)),
            TreeEntry::Directory(_) => {}
            TreeEntry::Missing { parents } => after.directories += parents + 1,
        }
        quota.check(session_id, self.usage, after)?;
        self.usage = after;
        Ok(self.make_directories(path))
    }

    /// Deletes a path; `None` if it does not exist, or is a non-empty directory without `recursive`.
    pub(super) fn delete(&mut self, path: &str, recursive: bool) -> Result<Option<Node>> {
        let Some((parent, name)) = split_last(path) else {
            return Err(rules::root_delete());
        };
        match self.find(path) {
            TreeEntry::Missing { .. } | TreeEntry::BelowFile { .. } => return Ok(None),
            TreeEntry::File(file) if file.is_readonly => return Err(rules::read_only(path)),
            TreeEntry::File(_) => {}
            TreeEntry::Directory(directory) => {
                if !directory.children.is_empty() && !recursive {
                    return Ok(None);
                }
                if let Some(inside) = directory.first_read_only(path) {
                    return Err(rules::read_only_inside(path, &inside));
                }
            }
        }
        let deleted = self.make_directories(parent).children.remove(name);
        if let Some(node) = &deleted {
            let freed = node.usage();
            self.usage.files -= freed.files;
            self.usage.directories -= freed.directories;
            self.usage.bytes -= freed.bytes;
        }
        Ok(deleted)
    }

    /// Returns the directory at a path and creates missing ones. The caller has checked that no segment of the path is a file.
    fn make_directories(&mut self, path: &str) -> &mut Directory {
        let mut directory = &mut self.root;
        for name in segments(path) {
            let node = if directory.children.contains_key(name) {
                directory.children.get_mut(name)
            } else {
                let child = Node::Directory(Box::new(Directory::new(new_meta())));
                Some(directory.children.entry(name.into()).or_insert(child))
            };
            match node {
                Some(Node::Directory(child)) => directory = child,
                Some(Node::File(_)) | None => unreachable!("{path} was checked before"),
            }
        }
        directory
    }
}

impl File {
    /// Retains the ID and the creation time of the replaced file.
    fn in_place_of(mut self, old: &Node) -> Self {
        if let Node::File(old) = old {
            self.meta = Meta {
                updated_at: Utc::now(),
                ..old.meta
            };
        }
        self
    }
}

impl Directory {
    fn first_read_only(&self, path: &str) -> Option<String> {
        self.children.iter().find_map(|(name, node)| match node {
            Node::File(file) => file.is_readonly.then(|| join(path, name)),
            Node::Directory(child) => child
                .first_read_only("")
                .map(|inside| format!("{path}/{name}{inside}")),
        })
    }
}

impl Node {
    fn usage(&self) -> Usage {
        match self {
            Self::File(file) => Usage {
                files: 1,
                directories: 0,
                bytes: file.content.len(),
            },
            Self::Directory(directory) => {
                let mut usage = Usage {
                    directories: 1,
                    ..Usage::default()
                };
                for node in directory.children.values() {
                    let inside = node.usage();
                    usage.files += inside.files;
                    usage.directories += inside.directories;
                    usage.bytes += inside.bytes;
                }
                usage
            }
        }
    }
}
