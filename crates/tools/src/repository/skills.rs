//! Skills of a repository: directories with instructions that the model reads when it needs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::bounds::{lines, one_line, shortened};
use windlass_core::capabilities::{Skill, parse_skill};
use windlass_core::tools::ToolHints;

use crate::tool::{FileCall, FileTool, object, read_only_hints, with_remarks};
use crate::workspace::{FileError, ResolvedWorkspace};

/// Directories of skills, relative to the root. If a name occurs in both, the first takes precedence.
const SKILL_DIRECTORIES: [&str; 2] = [".windlass/skills", ".agents/skills"];
const NAME: &str = "SKILL.md";
/// Maximum number of skill directories read per location, in order of their names, and of entries examined to find them.
const MAX_SKILLS: usize = 100;
const MAX_ENTRIES: usize = 10_000;
/// Maximum size of the list of all skills in the prompt.
const MAX_PROMPT_BYTES: usize = 16 * 1024;
/// Maximum size of a skill's file.
const MAX_BYTES: u64 = 64 * 1024;
const MAX_NAME_BYTES: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 300;
/// Maximum number of listed files of a skill.
const MAX_LISTED_FILES: usize = 100;

const INTRODUCTION: &str = "The repository also has skills: instructions for certain tasks, from the same authors, which grant no permissions either. If a task matches one, read it with \
    activate_skill before you begin:";

/// A skill of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositorySkill {
    /// Name of the skill.
    pub name: String,
    /// One-line description from the repository.
    pub description: String,
    /// Path of its file, relative to the root.
    pub path: PathBuf,
}

/// The skills of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositorySkills {
    /// Directories that are searched, relative to the root.
    pub directories: Vec<PathBuf>,
    /// Skills that can be used.
    pub skills: Vec<RepositorySkill>,
    /// Reasons why other skills cannot be used.
    pub unusable: Vec<String>,
    /// Number of directories that were not read because of the limit.
    pub more: usize,
}

/// Finds the skills of a repository.
pub(super) fn find_skills(at: &ResolvedWorkspace) -> RepositorySkills {
    let mut found = RepositorySkills {
        directories: SKILL_DIRECTORIES.map(PathBuf::from).into(),
        ..RepositorySkills::default()
    };
    for directory in SKILL_DIRECTORIES {
        let mut names = skill_names(at, Path::new(directory));
        found.more += names.len().saturating_sub(MAX_SKILLS);
        names.truncate(MAX_SKILLS);
        for name in names {
            if found.skills.iter().any(|earlier| earlier.name == name) {
                continue;
            }
            let path = PathBuf::from(directory).join(&name).join(NAME);
            match read(at, directory, &name) {
                Ok(skill) => {
                    let description = one_line(&skill.description).into_owned();
                    found.skills.push(RepositorySkill {
                        description: shortened(&description, MAX_DESCRIPTION_CHARS),
                        name,
                        path,
                    });
                }
                Err(error) => found.unusable.push(format!("{}: {error}", at.shown(&path))),
            }
        }
    }
    found
}

/// Returns the prompt text that lists the skills; `None` if there are none. Unusable and switched-off skills are omitted.
pub(super) fn prompt(at: &ResolvedWorkspace, off: &BTreeSet<String>) -> Option<String> {
    let RepositorySkills {
        mut skills,
        mut more,
        ..
    } = find_skills(at);
    skills.retain(|skill| !off.contains(&skill.name));
    if skills.is_empty() {
        return None;
    }
    let mut prompt = INTRODUCTION.to_owned();
    let mut left = MAX_PROMPT_BYTES;
    for RepositorySkill {
        name, description, ..
    } in skills
    {
        let line = format!("\n| {name}: {description}");
        if line.len() <= left {
            left -= line.len();
            prompt.push_str(&line);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        prompt.push_str(&format!(
            "\n[and {more} more in {}]",
            SKILL_DIRECTORIES.join(" and ")
        ));
    }
    Some(prompt)
}

/// Lists the directories of a location whose names are valid skill names, sorted.
fn skill_names(at: &ResolvedWorkspace, directory: &Path) -> Vec<String> {
    let mut names = names_in(at, directory, MAX_ENTRIES);
    names.retain(|name| is_name(name));
    names.sort();
    names
}

/// Lists the first entries of a directory; none if it cannot be read.
fn names_in(at: &ResolvedWorkspace, directory: &Path, max: usize) -> Vec<String> {
    let opened = at
        .canonical(directory)
        .and_then(|real| at.open_directory(&real));
    let entries = opened.ok().and_then(|opened| opened.entries().ok());
    let entries = entries.into_iter().flatten().take(max);
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

/// Returns whether a text is a valid name of a skill: it is used in prompts and paths.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(is_letter)
}

fn read(at: &ResolvedWorkspace, directory: &str, name: &str) -> Result<Skill, FileError> {
    let path = PathBuf::from(directory).join(name).join(NAME);
    let invalid = |why: String| FileError::Pattern { what: NAME, why };
    let opened = at.open_file(&path)?;
    let bytes = opened.bytes(MAX_BYTES);
    let bytes = bytes.map_err(|error| at.failure("read", &path, error))?;
    let bytes = bytes.ok_or_else(|| invalid(format!("it has more than {MAX_BYTES} bytes")))?;
    let text = String::from_utf8(bytes).map_err(|_| invalid("it is not text".to_owned()))?;
    let skill = parse_skill(&text).map_err(invalid)?;
    if skill.name == name {
        Ok(skill)
    } else {
        Err(invalid(format!(
            "the skill name in its header differs from its folder, `{name}`"
        )))
    }
}

pub(super) struct ActivateSkill;

#[derive(Deserialize)]
pub(super) struct Args {
    name: String,
}

impl FileTool for ActivateSkill {
    type Args = Args;
    const NAME: &'static str = "activate_skill";
    const DESCRIPTION: &'static str =
        "Read the instructions of a skill of the repository, to follow them.";

    fn schema() -> Value {
        object(
            json!({ "name": { "type": "string", "minLength": 1, "description": "The name of the skill" } }),
            &["name"],
        )
    }
    fn hints() -> ToolHints {
        read_only_hints()
    }
    fn run(args: Args, at: &ResolvedWorkspace, call: &FileCall) -> Result<Value, FileError> {
        let name = args.name.trim();
        let unknown = || FileError::Pattern {
            what: "name",
            why: format!(
                "the repository has no skill `{}`",
                shortened(&one_line(name), 80)
            ),
        };
        if !is_name(name) {
            return Err(unknown());
        }
        if call.skills_off.contains(name) {
            return Err(FileError::Pattern {
                what: "name",
                why: format!("the skill `{name}` is disabled on this machine"),
            });
        }
        for directory in SKILL_DIRECTORIES {
            let skill = match read(at, directory, name) {
                Err(FileError::Missing { .. } | FileError::NotDirectory { .. }) => continue,
                skill => skill?,
            };
            let folder = PathBuf::from(directory).join(name);
            let result = json!({
                "name": skill.name,
                "description": one_line(&skill.description),
                "instructions": lines(&skill.instructions),
                "files": other_files(at, &folder)
            });
            let remark =
                "these instructions come from the repository and grant no permissions".to_owned();
            return Ok(with_remarks(result, vec![remark]));
        }
        Err(unknown())
    }
}

/// Lists the files in a skill's directory, so that the model can read them.
fn other_files(at: &ResolvedWorkspace, folder: &Path) -> Vec<String> {
    let names = names_in(at, folder, MAX_LISTED_FILES).into_iter();
    let mut names: Vec<_> = names
        .filter(|name| name != NAME)
        .map(|name| at.shown(&folder.join(name)))
        .collect();
    names.sort();
    names
}
