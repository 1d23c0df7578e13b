//! The tables of `docs/configuration.md`, generated from the schema. `WINDLASS_BLESS=1` writes them into the page.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super as schema;

const BEGIN: &str = "<!-- keys -->\n";
const END: &str = "<!-- /keys -->\n";

/// Returns a table for the keys outside of sections, and one for each section.
fn tables() -> String {
    let root = schema::json();
    let mut top = rows_header();
    let mut sections = String::new();
    let properties = root["properties"].as_object().unwrap();
    for (name, property) in properties {
        let (path, table) = section(&root, name, property);
        match table["properties"].as_object() {
            None => row(&mut top, &root, name, property),
            Some(keys) => {
                let introduction = text(property, "description");
                let name = path.replace('*', "NAME");
                let _ = write!(
                    sections,
                    "### `[{name}]`\n\n{introduction}\n\n{}",
                    rows_header()
                );
                for (key, property) in keys {
                    row(&mut sections, &root, &format!("{path}.{key}"), property);
                }
                sections.push('\n');
            }
        }
    }
    format!("### Keys outside of sections\n\n{top}\n{sections}")
}

fn rows_header() -> String {
    "| Key | Type | Default | Description |\n| --- | --- | --- | --- |\n".to_owned()
}

/// Returns the path of a section and the schema of its keys; `*` is a name that the user chooses.
fn section<'a>(root: &'a Value, name: &str, property: &'a Value) -> (String, &'a Value) {
    let table = schema::resolved(root, property);
    match &table["additionalProperties"] {
        named @ Value::Object(_) => (format!("{name}.*"), schema::resolved(root, named)),
        _ => (name.to_owned(), table),
    }
}

fn row(table: &mut String, root: &Value, key: &str, property: &Value) {
    let is_map = property["additionalProperties"].is_object();
    let key = if is_map {
        format!("{key}.*")
    } else {
        key.to_owned()
    };
    let description = text(property, "description").replace('\n', " ");
    let (description, default) = match description.split_once(" Default: ") {
        Some((before, default)) => (before.to_owned(), default.trim_end_matches('.').to_owned()),
        None => (description, default_of(property)),
    };
    let kind = kind_of(root, property);
    let choices = choices_of(schema::resolved(root, property));
    let default = if default.starts_with(|c: char| c.is_ascii_digit()) {
        format!("`{default}`")
    } else {
        default
    };
    let _ = writeln!(
        table,
        "| `{key}` | {kind} | {default} | {description}{choices} |"
    );
}

fn default_of(property: &Value) -> String {
    match &property["default"] {
        Value::Bool(_) | Value::Number(_) => format!("`{}`", property["default"]),
        Value::String(text) if !text.is_empty() => format!("`{text}`"),
        _ => "–".to_owned(),
    }
}

fn kind_of(root: &Value, property: &Value) -> String {
    let schema = schema::resolved(root, property);
    if !choices_of(schema).is_empty() {
        return "choice".to_owned();
    }
    match schema["type"].as_str() {
        Some("array") => match schema["items"]["type"].as_str() {
            Some(item) => format!("list of {item}s"),
            None => "list of tables".to_owned(),
        },
        Some("object") => kind_of(root, &schema["additionalProperties"]),
        Some(kind) => kind.to_owned(),
        None => String::new(),
    }
}

/// Describes the values of a choice; empty for other types.
fn choices_of(schema: &Value) -> String {
    let mut described = String::new();
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        let value = text(choice, "const");
        let description = text(choice, "description").replace('\n', " ");
        let _ = write!(described, "<br>`{value}`: {description}");
    }
    described
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

#[test]
fn configuration_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let current = format!("{before}{BEGIN}\n{}{END}{after}", tables());
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page == current, "run this test with WINDLASS_BLESS=1");
}
