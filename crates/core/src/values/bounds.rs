//! Bounds of untrusted values: depth, length and processing cost.
//!
//! Models, repositories, clients and other users of the host supply patterns, schemas, arguments and names. Check them here first, so that they
//! cannot exhaust the stack, memory or CPU time, or produce a record that cannot be read back.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;
use unicode_general_category::{GeneralCategory, get_general_category};

/// Nesting limit of untrusted JSON. Records wrap it in a few more levels, and JSON parsers fail at 128.
pub const MAX_JSON_DEPTH: usize = 64;

/// Length limit of a path pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// How many braces of a pattern may be open at once. Pattern compilers recurse for each.
pub const MAX_PATTERN_DEPTH: usize = 8;

/// How many parts a schema may have once its references are followed.
pub const MAX_SCHEMA_PARTS: usize = 10_000;

/// Nesting limit of a schema with its references followed: schema compilers recurse for each level.
const MAX_SCHEMA_DEPTH: usize = 128;

/// The minimum number of parts that a regular expression counts as: a compiled one is larger than any other part.
const PARTS_OF_EXPRESSION: usize = 50;

/// A validator reads an expression again after each class that it translates, so the cost is quadratic in the length. One of 800 bytes counts as a
/// whole schema.
fn parts_of_expression(expression: &str) -> usize {
    let length = expression.len();
    PARTS_OF_EXPRESSION.saturating_add(length.saturating_mul(length) / 64)
}

/// Counts the parts of every expression in a schema.
fn parts_of_expressions(schema: &Value) -> usize {
    let mut count = 0_usize;
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        for (name, field) in value.as_object().into_iter().flatten() {
            let more = match (name.as_str(), field) {
                ("pattern", Value::String(expression)) => parts_of_expression(expression),
                ("patternProperties", Value::Object(fields)) => parts_of_names(fields),
                _ => 0,
            };
            count = count.saturating_add(more);
        }
        rest.extend(children(value));
    }
    count
}

/// Counts the parts of expressions that are the names of fields.
fn parts_of_names(fields: &serde_json::Map<String, Value>) -> usize {
    let parts = fields.keys().map(|name| parts_of_expression(name));
    parts.fold(0, usize::saturating_add)
}

/// Returns the items of an array or the values of an object.
fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    let fields = value.as_object().into_iter().flat_map(|it| it.values());
    items.chain(fields)
}

/// A value exceeds a bound.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutOfBounds {
    /// A pattern is too long.
    #[error("the pattern is longer than {MAX_PATTERN_BYTES} bytes")]
    LongPattern,
    /// A pattern has braces in braces.
    #[error("the pattern has more than {MAX_PATTERN_DEPTH} braces in each other")]
    DeepPattern,
}

/// Tells whether a value is nested no deeper than [`MAX_JSON_DEPTH`].
#[must_use]
pub fn is_shallow(value: &Value) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        if (value.is_array() || value.is_object()) && depth > MAX_JSON_DEPTH {
            return false;
        }
        open.extend(children(value).map(|child| (child, depth + 1)));
    }
    true
}

/// The same as [`is_shallow`], for unparsed text. Invalid JSON may give either result.
#[must_use]
pub fn is_shallow_text(json: &[u8]) -> bool {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'[' | b'{' if !is_quoted => depth += 1,
            b']' | b'}' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_JSON_DEPTH {
            return false;
        }
    }
    true
}

/// Checks a path pattern in the syntax of `glob` and ignore files.
///
/// # Errors
/// The pattern is too long, or compiling it could overflow the stack.
pub fn check_pattern(pattern: &str) -> Result<(), OutOfBounds> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(OutOfBounds::LongPattern);
    }
    // An escaped or bracketed `{` counts as open, and an escaped or bracketed `}` does not close: a compiler may parse them differently.
    let (mut depth, mut in_class, mut is_escaped) = (0_usize, false, false);
    for byte in pattern.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' if !in_class && !is_escaped => depth = depth.saturating_sub(1),
            b'[' => in_class = true,
            b']' => in_class = false,
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
        if depth > MAX_PATTERN_DEPTH {
            return Err(OutOfBounds::DeepPattern);
        }
    }
    Ok(())
}

/// Returns the number of nested values, including the value itself.
#[must_use]
pub fn count_values(value: &Value) -> usize {
    let mut count = 0;
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        count += 1;
        rest.extend(children(value));
    }
    count
}

/// Returns how many bytes a value has as JSON; `usize::MAX` if it has none, because its keys are not text.
#[must_use]
pub fn json_bytes(value: &impl Serialize) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = ByteCounter(0);
    let written = serde_json::to_writer(&mut counter, value);
    written.map_or(usize::MAX, |()| counter.0)
}

/// Returns the longest prefix of a text with at most `max_bytes` bytes.
#[must_use]
pub fn prefix(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rfind(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Returns the first characters of a text.
#[must_use]
pub fn prefix_chars(text: &str, max_chars: usize) -> &str {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Returns the first characters of a text, and `…` if there are more.
#[must_use]
pub fn shortened(text: &str, max_chars: usize) -> String {
    let shown = prefix_chars(text, max_chars);
    let mark = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{mark}")
}

/// Returns the longest suffix of a text with at most `max_bytes` bytes.
#[must_use]
pub fn suffix(text: &str, max_bytes: usize) -> &str {
    let least = text.len().saturating_sub(max_bytes);
    let start = (least..=text.len()).find(|start| text.is_char_boundary(*start));
    &text[start.unwrap_or(text.len())..]
}

/// The cost of validating a value against a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaCost {
    /// The number of parts, at most [`MAX_SCHEMA_PARTS`]. Each may be checked against every nested value.
    Parts(usize),
    /// The schema contains a recursive or unresolved reference, or a keyword that depends on the results of other keywords. The cost depends on the value.
    Unknown,
    /// The schema has more parts than the limit.
    TooLarge,
}

/// Returns the cost of validating a value against a schema, with every reference followed.
#[must_use]
pub fn schema_cost(schema: &Value) -> SchemaCost {
    // A validator reads expressions even in parts of the schema that it does not use.
    if !is_shallow(schema) || parts_of_expressions(schema) > MAX_SCHEMA_PARTS {
        return SchemaCost::TooLarge;
    }
    let mut counter = PartCounter {
        schema,
        counted: HashMap::new(),
        open: Vec::new(),
        depth: 0,
    };
    match counter.count(schema) {
        Ok(count) if count <= MAX_SCHEMA_PARTS => SchemaCost::Parts(count),
        Ok(_) => SchemaCost::TooLarge,
        Err(cost) => cost,
    }
}

/// Counts the parts of a schema.
struct PartCounter<'a> {
    schema: &'a Value,
    /// The number of parts of each followed reference.
    counted: HashMap<&'a str, usize>,
    /// References on the current path.
    open: Vec<&'a str>,
    depth: usize,
}

impl<'a> PartCounter<'a> {
    fn count(&mut self, part: &'a Value) -> Result<usize, SchemaCost> {
        self.depth += 1;
        if self.depth > MAX_SCHEMA_DEPTH {
            return Err(SchemaCost::TooLarge);
        }
        let count = self.count_children(part)?;
        self.depth -= 1;
        Ok(count)
    }

    fn count_children(&mut self, part: &'a Value) -> Result<usize, SchemaCost> {
        let is_whole = std::ptr::eq(part, self.schema);
        let mut count = 1_usize;
        match part {
            Value::Array(items) => {
                for item in items {
                    count = count.saturating_add(self.count(item)?);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let more = match (name.as_str(), field) {
                        ("$ref", Value::String(reference)) => self.count_target(reference)?,
                        ("$dynamicRef" | "$recursiveRef", _) => return Err(SchemaCost::Unknown),
                        // Each level evaluates all levels below it again.
                        (
                            "unevaluatedProperties" | "unevaluatedItems",
                            Value::Object(_) | Value::Bool(false),
                        ) => return Err(SchemaCost::Unknown),
                        // References below it have another base.
                        ("$id" | "id", Value::String(_)) if !is_whole => {
                            return Err(SchemaCost::Unknown);
                        }
                        ("pattern", Value::String(expression)) => parts_of_expression(expression),
                        ("patternProperties", Value::Object(fields)) => {
                            parts_of_names(fields).saturating_add(self.count(field)?)
                        }
                        _ => self.count(field)?,
                    };
                    count = count.saturating_add(more);
                }
            }
            _ => {}
        }
        Ok(count)
    }

    fn count_target(&mut self, reference: &'a str) -> Result<usize, SchemaCost> {
        if let Some(count) = self.counted.get(reference) {
            return Ok(*count);
        }
        // Validators disagree about escapes.
        if self.open.contains(&reference) || reference.contains('%') {
            return Err(SchemaCost::Unknown);
        }
        let pointer = reference.strip_prefix('#').ok_or(SchemaCost::Unknown)?;
        let target = self.schema.pointer(pointer).ok_or(SchemaCost::Unknown)?;
        self.open.push(reference);
        let count = self.count(target)?;
        self.open.pop();
        self.counted.insert(reference, count);
        Ok(count)
    }
}

/// Escapes an untrusted text for one line of a terminal or a log: characters that move the cursor, end the line, change the text direction or hide
/// other text.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_active)
}

/// The same for prose of several lines. Line ends remain, and so do variation selectors and joiners, which emoji need.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| {
        let is_needed = matches!(letter, '\n' | '\t' | '\u{200D}' | '\u{FE00}'..='\u{FE0F}');
        !is_needed && is_active(letter)
    })
}

/// The same for text in which every character matters, such as a command or a change to a file: spaces other than U+0020, characters that draw
/// lines and boxes, private and unassigned ones are escaped too.
#[must_use]
pub fn exact_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| {
        !matches!(letter, '\n' | '\t') && is_deceptive(letter)
    })
}

/// The same for one line.
#[must_use]
pub fn exact_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_deceptive)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let letters = text.chars().map(|letter| {
        if is_escaped(letter) {
            letter.escape_default().to_string()
        } else {
            letter.to_string()
        }
    });
    Cow::Owned(letters.collect())
}

/// Returns whether a character is invisible or affects its surroundings: controls, format characters, line and paragraph separators, and letters and
/// marks without a shape.
#[must_use]
pub fn is_active(letter: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    if letter.is_ascii() {
        return letter.is_ascii_control();
    }
    match get_general_category(letter) {
        Format => !is_visible_format(letter),
        Control | LineSeparator | ParagraphSeparator => true,
        _ => is_blank_letter(letter),
    }
}

/// Tells whether a character can make a text look like another one: those of [`is_active`], spaces that are not U+0020, private and unassigned
/// characters, and those that draw boxes and blocks.
#[must_use]
pub fn is_deceptive(letter: char) -> bool {
    use GeneralCategory::{Format, PrivateUse, SpaceSeparator, Unassigned};
    if letter.is_ascii() {
        return letter.is_ascii_control();
    }
    is_active(letter)
        || matches!(letter, '\u{2500}'..='\u{259F}' | '\u{1FB00}'..='\u{1FBFF}')
        || matches!(
            get_general_category(letter),
            Format | PrivateUse | SpaceSeparator | Unassigned
        )
}

/// Signs of Arabic, Syriac and Kaithi numbers are format characters with a shape (`Prepended_Concatenation_Mark`).
fn is_visible_format(letter: char) -> bool {
    matches!(
        letter,
        '\u{600}'..='\u{605}'
            | '\u{6DD}'
            | '\u{70F}'
            | '\u{890}'..='\u{891}'
            | '\u{8E2}'
            | '\u{110BD}'
            | '\u{110CD}'
    )
}

/// Letters, marks and symbols without a shape. The general category does not set these apart: they are the rest of
/// `Default_Ignorable_Code_Point`, and the blank pattern of braille.
fn is_blank_letter(letter: char) -> bool {
    matches!(
        letter,
        '\u{34F}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{2065}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFF8}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn depth_of_values_and_texts_is_limited() {
        for (depth, is_well) in [(1, true), (64, true), (65, false), (127, false)] {
            let text = nested(depth);
            assert_eq!(is_shallow_text(text.as_bytes()), is_well, "{depth}");
            let value = serde_json::from_str(&text).unwrap();
            assert_eq!(is_shallow(&value), is_well, "{depth}");
        }
        let quoted = format!("\"\\\"{}\"", nested(500));
        assert!(is_shallow_text(quoted.as_bytes()));
        assert!(is_shallow_text("]]]]{}".as_bytes()));
        assert!(!is_shallow_text("[".repeat(1_000_000).as_bytes()));
    }

    #[test]
    fn usual_patterns_pass_and_deeply_nested_ones_do_not() {
        for pattern in ["*.rs", "src/**/*.{rs,toml}", "{a,{b,{c,d}}}", "[{]", "}}}"] {
            assert_eq!(check_pattern(pattern), Ok(()), "{pattern}");
        }
        let hidden = format!("{}{}", "{[}]".repeat(800), "}".repeat(800));
        assert_eq!(check_pattern(&hidden), Err(OutOfBounds::DeepPattern));
        let tower = "{".repeat(2000);
        assert_eq!(check_pattern(&tower), Err(OutOfBounds::DeepPattern));
        let long = "a".repeat(5000);
        assert_eq!(check_pattern(&long), Err(OutOfBounds::LongPattern));
    }

    /// Each definition refers twice to the one before.
    fn doubling(levels: usize) -> Value {
        let mut definitions = serde_json::Map::new();
        definitions.insert("d0".into(), json!({"type": "string"}));
        for level in 1..=levels {
            let below = format!("#/$defs/d{}", level - 1);
            let twice = json!({"allOf": [{"$ref": below}, {"$ref": below}]});
            definitions.insert(format!("d{level}"), twice);
        }
        json!({"$defs": definitions, "$ref": format!("#/$defs/d{levels}")})
    }

    #[test]
    fn doubling_references_are_counted_without_expansion() {
        assert!(matches!(schema_cost(&doubling(3)), SchemaCost::Parts(_)));
        assert_eq!(schema_cost(&doubling(40)), SchemaCost::TooLarge);
        assert_eq!(schema_cost(&doubling(500)), SchemaCost::TooLarge);
    }

    #[test]
    fn expressions_are_counted_even_if_the_cost_is_unknown() {
        let long = "\\s".repeat(2000);
        for schema in [
            json!({"properties": {"left": {"$ref": "#"}, "name": {"pattern": long}}}),
            json!({"$ref": "#/nowhere", "patternProperties": {long.clone(): {}}}),
            json!({"unevaluatedProperties": false, "items": {"pattern": long}}),
        ] {
            assert_eq!(schema_cost(&schema), SchemaCost::TooLarge);
        }
    }

    #[test]
    fn recursive_and_external_references_have_unknown_cost() {
        let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        let remote = json!({"$ref": "http://127.0.0.1/schema"});
        let missing = json!({"$ref": "#/$defs/none"});
        // A validator reads the escape, and finds another definition.
        let escaped = json!({"$ref": "#/$defs/d%31", "$defs": {"d%31": {}, "d1": {}}});
        let elsewhere =
            json!({"allOf": [{"$id": "http://x", "$ref": "#/$defs/a"}], "$defs": {"a": {}}});
        let asking = json!({"allOf": [{"unevaluatedProperties": {"type": "number"}}]});
        let dynamic = json!({"$dynamicRef": "#a"});
        for schema in [tree, remote, missing, escaped, elsewhere, asking, dynamic] {
            assert_eq!(schema_cost(&schema), SchemaCost::Unknown, "{schema}");
        }
        let mut definitions = json!({"d0": {}});
        for level in 1..100 {
            definitions[format!("d{level}")] =
                json!({"items": {"items": {"$ref": format!("#/$defs/d{}", level - 1)}}});
        }
        let long = json!({"$ref": "#/$defs/d99", "$defs": definitions});
        assert_eq!(schema_cost(&long), SchemaCost::TooLarge);
        let expressions: serde_json::Map<_, _> = (0..300)
            .map(|number| (format!("\\p{{L}}{{{number}}}"), json!({})))
            .collect();
        let expressions = json!({"patternProperties": expressions});
        assert_eq!(schema_cost(&expressions), SchemaCost::TooLarge);
        // A validator takes most of a minute for it.
        let long = "\\s".repeat(2_000);
        for schema in [
            json!({"pattern": long}),
            json!({"patternProperties": {&long: {}}}),
        ] {
            assert_eq!(schema_cost(&schema), SchemaCost::TooLarge);
        }
        let usual =
            json!({"pattern": "^[a-z0-9]+(?:[._-][a-z0-9]+)*\\s*@(?:[a-z0-9-]+\\.)+[a-z]{2,}$"});
        assert!(matches!(schema_cost(&usual), SchemaCost::Parts(_)));
        let deep: Value = serde_json::from_str(&nested(100)).unwrap();
        assert_eq!(schema_cost(&deep), SchemaCost::TooLarge);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(one_line("plain text: ä 木"), "plain text: ä 木");
        assert_eq!(one_line("a\x1b[2Jb\r\nc"), "a\\u{1b}[2Jb\\r\\nc");
        assert_eq!(one_line("a\u{202e}b\u{9b}"), "a\\u{202e}b\\u{9b}");
        assert_eq!(lines("a\n\tb\x1b]0;x\x07"), "a\n\tb\\u{1b}]0;x\\u{7}");
    }

    #[test]
    fn invisible_characters_are_escaped() {
        for hidden in [
            '\u{2800}',
            '\u{3164}',
            '\u{115F}',
            '\u{1160}',
            '\u{FFA0}',
            '\u{FE00}',
            '\u{FE0F}',
            '\u{34F}',
            '\u{180B}',
            '\u{180F}',
            '\u{E0100}',
            '\u{E01EF}',
        ] {
            let escape = hidden.escape_default().to_string();
            assert_eq!(one_line(&format!("rm{hidden}x")), format!("rm{escape}x"));
            assert_eq!(
                exact_lines(&format!("rm\n\t{hidden}x")),
                format!("rm\n\t{escape}x")
            );
        }
        // Prose may have emoji.
        assert_eq!(lines("I \u{2764}\u{FE0F} it"), "I \u{2764}\u{FE0F} it");
        assert_eq!(lines("a\u{3164}b"), "a\\u{3164}b");
    }

    #[test]
    fn exact_text_has_no_deceptive_characters() {
        // Musical, shorthand and hieroglyph format characters; spaces; blocks and boxes; private and unassigned ones.
        for code in [
            0x1D173, 0x1BCA0, 0x13430, 0xE0041, 0x61C, 0xA0, 0x2003, 0x202F, 0x205F, 0x3000,
            0x1680, 0x2588, 0x2502, 0xE000, 0xF0000, 0x378, 0xFFF0, 0x2800,
        ] {
            let letter = char::from_u32(code).unwrap();
            let escaped = format!("rm\\u{{{code:x}}}x");
            assert_eq!(exact_lines(&format!("rm{letter}x")), escaped);
        }
        let plain = "naïve 木 — “quoted” 👍 é\u{301}";
        assert_eq!(exact_lines(plain), plain);
    }
}
