//! Searching a tree.

use std::ops::ControlFlow;

use super::tree::{Directory, File, FileTree, Node};
use crate::files::search::{Search, path_order};

impl FileTree {
    /// Gives all files to a search, in the order of their paths, until it has enough.
    pub(super) fn search(&self, search: &mut Search<'_>) {
        let _ = self.root.search(&mut String::new(), search);
    }
}

impl Directory {
    fn search(&self, path: &mut String, search: &mut Search<'_>) -> ControlFlow<()> {
        let end = path.len();
        for (name, node) in self.by_path() {
            match node {
                Node::File(file) => file.search(path, name, search)?,
                Node::Directory(child) => {
                    path.push('/');
                    path.push_str(name);
                    child.search(path, search)?;
                    path.truncate(end);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn by_path(&self) -> Vec<(&str, &Node)> {
        let is_directory = |node: &Node| matches!(node, Node::Directory(_));
        let mut children = Vec::with_capacity(self.children.len());
        let mut has_directories = false;
        for (name, node) in &self.children {
            has_directories |= is_directory(node);
            children.push((&**name, node));
        }
        if has_directories {
            children.sort_by(|(a, a_node), (b, b_node)| {
                path_order((a, is_directory(a_node)), (b, is_directory(b_node)))
            });
        }
        children
    }
}

impl File {
    /// Builds the path only if the search needs it, because few files match.
    fn search(&self, parent: &mut String, name: &str, search: &mut Search<'_>) -> ControlFlow<()> {
        let Some(text) = self.content.text() else {
            return ControlFlow::Continue(());
        };
        if !search.has_path_pattern() && !search.may_match(text) {
            return ControlFlow::Continue(());
        }
        let end = parent.len();
        parent.push('/');
        parent.push_str(name);
        let flow = if search.matches_path(parent) && search.may_match(text) {
            search.add_matches(parent, text)
        } else {
            ControlFlow::Continue(())
        };
        parent.truncate(end);
        flow
    }
}
