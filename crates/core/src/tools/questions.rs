//! Questions with options, and the validation of their answers.
//!
//! A request for user input from the built-in tool has the shape `{questions: [{id, options: [{label}], allow_free_text, …}]}`, and its answer
//! `{answers: [{id, label, value}]}`. A host's own tools may use other shapes, which are always accepted.

use std::fmt;

use serde_json::Value;

/// Maximum number of options that an error lists.
const MAX_LISTED: usize = 20;

/// An answer outside of the options of a closed question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidOption {
    /// The question's id.
    pub question: String,
    /// The index of the answer.
    pub index: usize,
    /// The allowed options.
    pub options: Vec<String>,
}

impl fmt::Display for InvalidOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<_> = self.options.iter().take(MAX_LISTED).collect();
        write!(
            f,
            "the answer to question `{}` is not one of its options; choose from {listed:?}",
            self.question
        )?;
        match self.options.len() - listed.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Returns the options of a question; `None` if it accepts any text.
#[must_use]
pub fn closed_options(question: &Value) -> Option<Vec<&str>> {
    // A question is closed only if `allow_free_text` is `false`: hosts send questions without this field.
    if question["allow_free_text"] != false {
        return None;
    }
    let options = question["options"].as_array()?.iter();
    let labels: Vec<_> = options.filter_map(|it| it["label"].as_str()).collect();
    (!labels.is_empty()).then_some(labels)
}

/// Returns whether a text is an option, case-insensitively. If several may be chosen, a comma-separated list of options is accepted too.
#[must_use]
pub fn is_choice(question: &Value, answer: &str) -> bool {
    let Some(options) = closed_options(question) else {
        return true;
    };
    let plain = |text: &str| text.trim().to_lowercase();
    let is_option = |text: &str| options.iter().any(|option| plain(option) == plain(text));
    is_option(answer) || (question["multi_select"] == true && answer.split(',').all(is_option))
}

/// Rejects an answer outside of the options if a question takes no free text. A matching label or a matching value is sufficient, because clients
/// fill in the other one differently. An answer with `skipped: true` is accepted without an option.
pub fn check_answers(request: &Value, answer: &Value) -> Result<(), InvalidOption> {
    let Some(questions) = request["questions"].as_array() else {
        return Ok(());
    };
    let invalid = |question: &Value, index| InvalidOption {
        question: question["id"].as_str().unwrap_or_default().to_owned(),
        index,
        options: closed_options(question)
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect(),
    };
    if let (Value::String(text), [question]) = (answer, questions.as_slice()) {
        return if is_choice(question, text) {
            Ok(())
        } else {
            Err(invalid(question, 0))
        };
    }
    let given = answer["answers"].as_array().into_iter().flatten();
    for (index, given) in given.enumerate() {
        let Some(question) = questions.iter().find(|it| it["id"] == given["id"]) else {
            continue;
        };
        let texts = [&given["label"], &given["value"]];
        let mut texts = texts.into_iter().filter_map(Value::as_str);
        if given["skipped"] != true && !texts.any(|text| is_choice(question, text)) {
            return Err(invalid(question, index));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(question: &Value, answer: &Value) -> bool {
        let asked = json!({ "questions": [question] });
        check_answers(&asked, &json!({ "answers": [answer] })).is_ok()
    }

    #[test]
    fn closed_question_accepts_only_its_options() {
        let question = json!({"id": "q", "options": [{"label": "Red"}, {"label": "Yes, please"}], "allow_free_text": false});
        for (label, value, is_accepted) in [
            ("Red", "Red", true),
            ("Red", "crimson", true),
            ("Colour", "red ", true),
            ("Yes, please", "", true),
            ("Green", "Green", false),
            ("Other", "green", false),
            ("", "", false),
            ("Red, Yes, please", "Red, Red", false),
        ] {
            let answer = json!({"id": "q", "label": label, "value": value});
            assert_eq!(fits(&question, &answer), is_accepted, "{label} {value}");
        }
        assert!(!fits(&question, &json!({"id": "q"})));
        assert!(!fits(&question, &json!({"id": "q", "value": 1})));
        let skipped = json!({"id": "q", "label": "", "value": "no answer", "skipped": true});
        assert!(fits(&question, &skipped));
        let asked = json!({ "questions": [question] });
        assert_eq!(check_answers(&asked, &json!("red")), Ok(()));
        let error = check_answers(&asked, &json!("Green")).unwrap_err();
        assert_eq!((error.question.as_str(), error.options.len()), ("q", 2));
        assert!(error.to_string().contains(r#"["Red", "Yes, please"]"#));
    }

    #[test]
    fn multi_select_question_accepts_several_options() {
        let question = json!({"id": "q", "options": [{"label": "Red"}, {"label": "Blue"}], "allow_free_text": false, "multi_select": true});
        for (value, is_accepted) in [
            ("Red, Blue", true),
            ("blue,red", true),
            ("Red, Green", false),
            ("Red,", false),
        ] {
            let answer = json!({"id": "q", "label": value, "value": value});
            assert_eq!(fits(&question, &answer), is_accepted, "{value}");
        }
    }

    #[test]
    fn open_question_accepts_any_answer() {
        let options = json!([{"label": "Red"}]);
        let other = json!({"id": "q", "label": "Other", "value": "green"});
        for question in [
            json!({"id": "q", "options": options, "allow_free_text": true}),
            json!({"id": "q", "options": options}),
            json!({"id": "q", "options": [], "allow_free_text": false}),
            json!({"id": "another", "options": options, "allow_free_text": false}),
        ] {
            assert!(fits(&question, &other), "{question}");
        }
        for shape in [json!(null), json!("Which?"), json!({"questions": 1})] {
            assert_eq!(check_answers(&shape, &other), Ok(()));
        }
        let asked =
            json!({"questions": [{"id": "q", "options": options, "allow_free_text": false}]});
        for own in [json!(null), json!({"colour": "green"}), json!(["green"])] {
            assert_eq!(check_answers(&asked, &own), Ok(()));
        }
    }
}
