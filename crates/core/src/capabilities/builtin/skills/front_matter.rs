//! The header of a `SKILL.md`: a few lines of YAML, of which `name` and `description` are read.

/// The content of a `SKILL.md`.
#[derive(Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// The purpose of the skill.
    pub description: String,
    pub instructions: String,
}

/// Reads a `SKILL.md`. Other keys are allowed and ignored; a value may be plain, quoted or a block.
pub fn parse(text: &str) -> Result<Skill, String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return Err("it must begin with a line `---` and a header".to_owned());
    }
    let mut header = Vec::new();
    loop {
        match lines.next().map(str::trim_end) {
            Some("---") => break,
            Some(line) => header.push(line),
            None => return Err("its header has no closing line `---`".to_owned()),
        }
    }
    let (mut name, mut description) = (None, None);
    let mut rest = header.as_slice();
    while let [line, below @ ..] = rest {
        let indented = below
            .iter()
            .take_while(|line| is_continuation(line))
            .count();
        let (block, next) = below.split_at(indented);
        rest = next;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(format!(
                "its header has a line that is no `key: value`: {line}"
            ));
        };
        let slot = match key.trim() {
            "name" => &mut name,
            "description" => &mut description,
            _ => continue,
        };
        if slot.replace(scalar(key, value.trim(), block)?).is_some() {
            return Err(format!("its header has `{key}` twice"));
        }
    }
    let needed = |value: Option<String>, key: &str| {
        value
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("its header has no `{key}`"))
    };
    let instructions: Vec<_> = lines.collect();
    Ok(Skill {
        name: needed(name, "name")?,
        description: needed(description, "description")?,
        instructions: instructions.join("\n").trim().to_owned(),
    })
}

fn is_continuation(line: &str) -> bool {
    line.is_empty() || line.starts_with([' ', '\t', '-'])
}

fn scalar(key: &str, value: &str, block: &[&str]) -> Result<String, String> {
    let below = |separator: &str| {
        let lines: Vec<_> = block.iter().map(|line| line.trim()).collect();
        lines.join(separator).trim().to_owned()
    };
    match value.as_bytes() {
        [b'|', ..] => Ok(below("\n")),
        [b'>', ..] => Ok(below(" ")),
        [quote @ (b'"' | b'\''), inner @ .., end] if quote == end => {
            let quote = char::from(*quote);
            let inner = String::from_utf8_lossy(inner);
            Ok(match quote {
                '"' => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
                _ => inner.replace("''", "'"),
            })
        }
        [b'"' | b'\'', ..] => Err(format!("the quote of `{key}` is not closed")),
        [b'[' | b'{', ..] => Err(format!("`{key}` must be a text")),
        // A plain scalar can span several indented lines.
        _ => Ok(format!("{value} {}", below(" ")).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_plain_quoted_or_blocks() {
        for (header, description) in [
            (
                "name: pdf\ndescription: Reads PDFs: all of them",
                "Reads PDFs: all of them",
            ),
            ("name: 'pdf'\ndescription: \"Say \\\"hi\\\"\"", "Say \"hi\""),
            (
                "# c\nname: pdf\nmeta:\n  a: 1\n- b\ndescription: >-\n  Reads\n  PDFs\n\nlicense: MIT",
                "Reads PDFs",
            ),
            ("description: |\n  One\n  Two\nname: pdf", "One\nTwo"),
            ("name: pdf\ndescription: It's\n  long", "It's long"),
        ] {
            let skill = parse(&format!("---\n{header}\n---\n\nDo it.\n---\nMore\n")).unwrap();
            assert_eq!(
                (skill.name.as_str(), skill.description.as_str()),
                ("pdf", description)
            );
            assert_eq!(skill.instructions, "Do it.\n---\nMore");
        }
        assert!(parse("\u{feff}---\r\nname: a\r\ndescription: b\r\n---\r\n").is_ok());
    }

    #[test]
    fn malformed_skill_is_an_error() {
        for (text, why) in [
            ("", "must begin with"),
            ("# Skill", "must begin with"),
            ("---\nname: a\n", "no closing line"),
            ("---\nname: a\n---\n", "no `description`"),
            ("---\nname:\ndescription: b\n---\n", "no `name`"),
            (
                "---\nname: a\nname: b\ndescription: b\n---\n",
                "`name` twice",
            ),
            ("---\nhello\n---\n", "no `key: value`: hello"),
            ("---\nname: \"a\ndescription: b\n---\n", "not closed"),
            ("---\nname: [a]\ndescription: b\n---\n", "must be a text"),
            ("---\nname: \"\ndescription: b\n---\n", "not closed"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
