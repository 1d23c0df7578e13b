//! The search for deferred tools: a word search in names and descriptions.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::bounds::{json_bytes, prefix_chars};
use windlass_core::tools::{TOOL_SEARCH, Tool, ToolDefinition, ToolExecutionResult};

use super::{Offer, deferred};

/// Default number of returned tools; the maximum is `MAX_LIMIT`.
const LIMIT: u64 = 8;
const MAX_LIMIT: u64 = 20;
/// Maximum length of the part of a query that is read, in characters.
const MAX_QUERY_CHARS: usize = 500;
const MAX_WORDS: usize = 16;
/// Maximum length of the searched and of the returned part of a description, in characters.
const SEARCHED_CHARS: usize = 2_000;
const SHOWN_CHARS: usize = 300;

/// Finds deferred tools. Its results are recorded, and the tools are offered to the conversation from then on.
pub(crate) struct ToolSearch {
    pub(super) offer: Arc<Offer>,
    /// Maximum size of a result in bytes. A longer one would be truncated, and its tool names lost.
    pub(super) max_bytes: usize,
}

#[async_trait]
impl Tool for ToolSearch {
    fn name(&self) -> &str {
        TOOL_SEARCH
    }
    fn description(&self) -> &str {
        self.offer
            .tool(TOOL_SEARCH)
            .map_or("", ToolDefinition::description)
    }
    fn parameters_schema(&self) -> Value {
        deferred::schema()
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        let query = arguments["query"].as_str().unwrap_or_default();
        let limit = arguments["limit"].as_u64().unwrap_or(LIMIT).min(MAX_LIMIT);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tools = &self.offer.deferred;
        ToolExecutionResult::success(search_result(tools, query, limit, self.max_bytes))
    }
}

fn search_result(tools: &[ToolDefinition], query: &str, limit: usize, max_bytes: usize) -> Value {
    let matches = matches(tools, query);
    let (mut found, mut bytes) = (Vec::new(), 64);
    for tool in matches.iter().take(limit) {
        let shown = json!({
            "name": tool.name(),
            "description": prefix_chars(tool.description(), SHOWN_CHARS),
        });
        bytes += json_bytes(&shown) + 1;
        if bytes > max_bytes {
            break;
        }
        found.push(shown);
    }
    match matches.len() {
        0 => {
            json!({"tools": [], "note": "no tool has any of these words; try others, or the name of a group"})
        }
        count => json!({"more": count - found.len(), "tools": found}),
    }
}

/// Returns the matching tools, best first. Tools that score half of the best or less are omitted.
fn matches<'a>(tools: &'a [ToolDefinition], query: &str) -> Vec<&'a ToolDefinition> {
    let query = prefix_chars(query, MAX_QUERY_CHARS).trim().to_lowercase();
    let mut seen = HashSet::new();
    let words: Vec<&str> = words_of(&query)
        .filter(|word| seen.insert(*word))
        .take(MAX_WORDS)
        .collect();
    let scored = tools.iter().map(|tool| (score(tool, &query, &words), tool));
    let mut scored: Vec<_> = scored.filter(|(score, _)| *score > 0).collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let best = scored.first().map_or(0, |(score, _)| *score);
    let good = scored.into_iter().filter(|(score, _)| *score * 2 > best);
    good.map(|(_, tool)| tool).collect()
}

fn score(tool: &ToolDefinition, query: &str, words: &[&str]) -> u32 {
    let name = tool.name().to_lowercase();
    let shown = tool.display_name().unwrap_or_default().to_lowercase();
    let description = prefix_chars(tool.description(), SEARCHED_CHARS).to_lowercase();
    let names: HashSet<&str> = words_of(&name).chain(words_of(&shown)).collect();
    let described: HashSet<&str> = words_of(&description).collect();
    let is_name = !words.is_empty() && (name == query || shown == query);
    let of_word = |word: &&str| {
        // One or two characters occur in nearly every text, so they match only a complete word of a name.
        let is_short = word.len() < 3;
        if names.contains(word) {
            8
        } else if is_short {
            0
        } else if name.contains(word) || shown.contains(word) {
            4
        } else if described.contains(word) {
            2
        } else {
            u32::from(description.contains(word))
        }
    };
    words.iter().map(of_word).sum::<u32>() + if is_name { 1_000 } else { 0 }
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use windlass_core::llm_driver_registry::LlmCallConfig;

    use super::*;

    fn tools() -> Vec<ToolDefinition> {
        [
            ("mail__send", "Sends an e-mail to a person."),
            ("mail__list", "Lists the messages of a folder."),
            ("calendar__list", "Lists the events of a day."),
            ("getWeather", "Tells the weather, for one day."),
        ]
        .map(|(name, text)| ToolDefinition::client_side(name, text, json!({})))
        .into()
    }

    fn names(query: &str) -> Vec<String> {
        let tools = tools();
        let found = matches(&tools, query);
        found.iter().map(|tool| tool.name().to_owned()).collect()
    }

    #[test]
    fn words_find_names_before_descriptions() {
        assert_eq!(names("send mail"), ["mail__send"]);
        assert_eq!(names("MAIL"), ["mail__send", "mail__list"]);
        assert_eq!(names("weather"), ["getWeather"]);
        assert_eq!(names("folder"), ["mail__list"]);
        assert_eq!(names("calendar__list"), ["calendar__list"]);
        assert!(names("submarine").is_empty());
    }

    #[test]
    fn hostile_queries_are_only_words() {
        for query in ["", " ", "(.*)+$", "[", "\\", "\0", "((((a+)+)+)+)$", "*"] {
            assert!(names(query).is_empty(), "{query:?}");
        }
        assert_eq!(names(".*mail.*|(x+)+"), ["mail__send", "mail__list"]);
        let huge = "é ".repeat(5_000_000);
        assert!(names(&huge).is_empty());
        assert_eq!(names(&format!("weather {huge}")), ["getWeather"]);
        assert!(
            names(&format!("{huge} weather")).is_empty(),
            "only the beginning is read"
        );
    }

    #[test]
    fn search_result_stays_within_the_size_limit() {
        let text = "ship ".repeat(100_000);
        let tools: Vec<_> = (0..500)
            .map(|n| ToolDefinition::client_side(format!("ship_{n}"), &*text, json!({})))
            .collect();
        let counted = |limit, max_bytes| {
            let search_result = search_result(&tools, "ship", limit, max_bytes);
            assert!(search_result.to_string().len() <= max_bytes);
            let found = search_result["tools"].as_array().map_or(0, Vec::len);
            assert_eq!(search_result["more"], 500 - found);
            found
        };
        assert_eq!(counted(8, 65_536), 8);
        assert_eq!(counted(8, 1_000), 2);
    }

    #[tokio::test]
    async fn requested_limit_is_capped() {
        let tools = (0..100)
            .map(|n| ToolDefinition::client_side(format!("ship_{n}"), "", json!({})))
            .collect();
        let search = ToolSearch {
            offer: Arc::new(Offer::new(LlmCallConfig::default(), tools)),
            max_bytes: 65_536,
        };
        for (limit, expected) in [(json!(3), 3), (json!(null), 8), (json!(u64::MAX), 20)] {
            let found = search.execute(json!({"query": "ship", "limit": limit}));
            let ToolExecutionResult::Success(value) = found.await else {
                panic!("a search does not fail");
            };
            assert_eq!(value["tools"].as_array().map(Vec::len), Some(expected));
        }
    }
}
