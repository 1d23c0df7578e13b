//! The directories that contain skills.

use super::front_matter::{Skill, parse};
use crate::capabilities::builtin::session_tool::{ToolFailure, fail};
use crate::error::Result as CoreResult;
use crate::traits::SessionFileSystem;
use crate::typed_id::SessionId;

const ROOT: &str = "/.agents/skills";
/// Maximum number of directories read, so that many directories do not make a long prompt.
const MAX_SKILLS: usize = 100;

/// A directory, and its skill or the reason why it cannot be used.
pub(super) struct SkillFolder {
    pub(super) folder: String,
    pub(super) skill: Result<Skill, String>,
}

/// Reads the header of every skill, by name.
pub(super) async fn read_all(
    files: &dyn SessionFileSystem,
    session_id: SessionId,
) -> CoreResult<Vec<SkillFolder>> {
    let folders = files.list_directory(session_id, ROOT).await?;
    let folders = folders.into_iter().filter(|folder| folder.is_directory);
    let mut found = Vec::new();
    for folder in folders.take(MAX_SKILLS) {
        let skill = match read(files, session_id, &folder.name).await? {
            Some(skill) => skill,
            None => Err("it has no SKILL.md".to_owned()),
        };
        found.push(SkillFolder {
            folder: folder.name,
            skill,
        });
    }
    Ok(found)
}

/// Reads one skill.
pub(super) async fn read_one(
    files: &dyn SessionFileSystem,
    session_id: SessionId,
    name: &str,
) -> Result<Skill, ToolFailure> {
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
        return fail(format!("`{name}` is not a valid skill name"));
    }
    match read(files, session_id, name).await? {
        Some(Ok(skill)) => Ok(skill),
        Some(Err(why)) => fail(format!("{ROOT}/{name}/SKILL.md cannot be used: {why}")),
        None => fail(format!(
            "there is no skill `{name}`; list_skills lists the available ones"
        )),
    }
}

/// Returns the paths of the other files in the directory of a `SKILL.md`.
pub(super) async fn other_files(
    files: &dyn SessionFileSystem,
    session_id: SessionId,
    name: &str,
) -> CoreResult<Vec<String>> {
    let folder = format!("{ROOT}/{name}");
    let entries = files.list_directory(session_id, &folder).await?;
    let others = entries.into_iter().filter(|entry| entry.name != "SKILL.md");
    Ok(others.map(|entry| entry.path).collect())
}

async fn read(
    files: &dyn SessionFileSystem,
    session_id: SessionId,
    name: &str,
) -> CoreResult<Option<Result<Skill, String>>> {
    let path = format!("{ROOT}/{name}/SKILL.md");
    let Some(file) = files.read_file(session_id, &path).await? else {
        return Ok(None);
    };
    let text = match file.content {
        Some(text) if file.encoding == "text" => text,
        _ => return Ok(Some(Err("it is not a text file".to_owned()))),
    };
    Ok(Some(parse(&text).and_then(|skill| {
        if skill.name == name {
            return Ok(skill);
        }
        let named = skill.name;
        Err(format!(
            "its header names it `{named}`, but its folder is `{name}`"
        ))
    })))
}
