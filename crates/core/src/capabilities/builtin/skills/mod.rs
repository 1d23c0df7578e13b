//! Skills: folders of instructions that the agent reads when it needs them.

mod front_matter;
mod library;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::{NoArguments, SessionTool, ToolFailure, boxed, files, object, reads};
use crate::capabilities::{Capability, SystemPromptContext};
use crate::tools::{Tool, ToolHints};
use crate::traits::ToolContext;

pub use front_matter::{Skill, parse as parse_skill};

/// Finds skills in `/.agents/skills/{name}/SKILL.md` and reads them on demand.
#[derive(Debug, Clone, Copy, Default)]
pub struct SkillsCapability;

#[async_trait]
impl Capability for SkillsCapability {
    constants!(
        "skills",
        "Skills",
        "Finds and reads skills in the session's files.",
        "Files"
    );
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(ListSkills), boxed(ActivateSkill)]
    }
    async fn system_prompt_contribution(&self, ctx: &SystemPromptContext) -> Option<String> {
        let files = ctx.file_store.as_ref()?;
        let found = library::read_all(files.as_ref(), ctx.session_id)
            .await
            .ok()?;
        let usable = found.iter().filter_map(|folder| folder.skill.as_ref().ok());
        let lines: Vec<_> = usable
            .map(|skill| format!("- {}: {}", skill.name, skill.description.replace('\n', " ")))
            .collect();
        (!lines.is_empty()).then(|| {
            format!(
                "Skills are instructions for certain tasks. When a task fits one, read it with activate_skill before you begin:\n{}",
                lines.join("\n")
            )
        })
    }
}

struct ListSkills;

#[async_trait]
impl SessionTool for ListSkills {
    type Args = NoArguments;
    const NAME: &'static str = "list_skills";
    const DESCRIPTION: &'static str = "List the skills of this session.";

    fn schema(&self) -> Value {
        object(json!({}), &[])
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, _: NoArguments, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let (mut skills, mut broken) = (Vec::new(), Vec::new());
        for found in library::read_all(files(ctx)?.as_ref(), ctx.session_id).await? {
            match found.skill {
                Ok(skill) => {
                    skills.push(json!({ "name": skill.name, "description": skill.description }));
                }
                Err(error) => broken.push(json!({ "name": found.folder, "error": error })),
            }
        }
        let mut result = json!({ "skills": skills });
        if !broken.is_empty() {
            result["broken"] = json!(broken);
        }
        Ok(result)
    }
}

struct ActivateSkill;

#[derive(Deserialize)]
struct SkillName {
    name: String,
}

#[async_trait]
impl SessionTool for ActivateSkill {
    type Args = SkillName;
    const NAME: &'static str = "activate_skill";
    const DESCRIPTION: &'static str = "Read the instructions of a skill, to follow them.";

    fn schema(&self) -> Value {
        object(
            json!({ "name": { "type": "string", "minLength": 1, "description": "The name as list_skills shows it" } }),
            &["name"],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: SkillName, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let name = args.name.trim();
        let files = files(ctx)?.as_ref();
        let skill = library::read_one(files, ctx.session_id, name).await?;
        let others = library::other_files(files, ctx.session_id, name).await?;
        Ok(json!({
            "name": skill.name,
            "description": skill.description,
            "instructions": skill.instructions,
            "files": others
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeFiles, call, odd_arguments};
    use super::*;
    use crate::typed_id::SessionId;

    fn library() -> ToolContext {
        let files = FakeFiles::new(&[
            (
                "/.agents/skills/pdf/SKILL.md",
                "---\nname: pdf\ndescription: Reads PDFs\n---\nUse a reader.",
            ),
            ("/.agents/skills/pdf/reader.py", "pass"),
            ("/.agents/skills/bad/SKILL.md", "no header"),
            (
                "/.agents/skills/liar/SKILL.md",
                "---\nname: pdf\ndescription: x\n---\n",
            ),
            ("/.agents/skills/empty/x", ""),
            ("/.agents/skills/README.md", "not a folder"),
        ]);
        ToolContext::with_file_store(SessionId::new(), files)
    }

    #[tokio::test]
    async fn skills_are_listed_and_unreadable_ones_have_an_error() {
        let listed = call(&SkillsCapability, "list_skills", json!({}), &library())
            .await
            .unwrap();
        assert_eq!(
            listed["skills"],
            json!([{"name": "pdf", "description": "Reads PDFs"}])
        );
        let broken: Vec<_> = listed["broken"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| &b["name"])
            .collect();
        assert_eq!(broken, ["bad", "empty", "liar"]);
        let none = ToolContext::with_file_store(SessionId::new(), FakeFiles::new(&[]));
        let listed = call(&SkillsCapability, "list_skills", json!({}), &none).await;
        assert_eq!(listed.unwrap(), json!({"skills": []}));
    }

    #[tokio::test]
    async fn skill_is_read_with_its_other_files() {
        let args = json!({"name": "pdf"});
        let skill = call(&SkillsCapability, "activate_skill", args, &library())
            .await
            .unwrap();
        assert_eq!(skill["instructions"], "Use a reader.");
        assert_eq!(skill["files"], json!(["/.agents/skills/pdf/reader.py"]));
    }

    #[tokio::test]
    async fn unreadable_skill_is_an_error() {
        for (name, why) in [
            (
                "nope",
                "there is no skill `nope`; list_skills lists the available ones",
            ),
            (
                "empty",
                "there is no skill `empty`; list_skills lists the available ones",
            ),
            (
                "bad",
                "/.agents/skills/bad/SKILL.md cannot be used: it must begin with a line `---` and a header",
            ),
            (
                "liar",
                "/.agents/skills/liar/SKILL.md cannot be used: its header names it `pdf`, but its folder is `liar`",
            ),
            ("../etc", "`../etc` is not a valid skill name"),
        ] {
            let args = json!({"name": name});
            let skill = call(&SkillsCapability, "activate_skill", args, &library()).await;
            assert_eq!(skill.unwrap_err(), why);
        }
        odd_arguments(&SkillsCapability).await;
    }

    #[tokio::test]
    async fn the_prompt_names_the_skills() {
        let context = SystemPromptContext {
            session_id: SessionId::new(),
            locale: None,
            file_store: library().file_store,
            model: None,
        };
        let prompt = SkillsCapability
            .system_prompt_contribution(&context)
            .await
            .unwrap();
        assert!(prompt.ends_with(":\n- pdf: Reads PDFs"), "{prompt}");
    }
}
