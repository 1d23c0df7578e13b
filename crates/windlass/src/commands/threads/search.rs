//! `windlass threads search`.

use std::io::{self, IsTerminal, Write};
use std::ops::Range;

use anyhow::Result;
use windlass_core::bounds::one_line;
use windlass_protocol::{Item, ItemKind, RuntimeApi, ThreadSummary};

use super::list::summaries;
use crate::client::calls;
use crate::client::ids::{SEARCHED, short};
use crate::local_time;
use crate::terminal::{Colour, Style, columns};

/// Maximum number of messages that are shown of a thread.
const MESSAGES: usize = 3;
/// Number of characters that are shown before a match.
const BEFORE: usize = 30;

/// Writes the messages that contain a text, and returns the number of threads with such messages. Messages have no index, so every thread is read.
pub(super) async fn search(
    api: &dyn RuntimeApi,
    text: &str,
    (limit, include_archived): (usize, bool),
    out: &mut impl Write,
) -> Result<usize> {
    let mut found = 0;
    for thread in summaries(api, SEARCHED, include_archived).await? {
        if found == limit {
            break;
        }
        let detail = calls::full_thread(api, &thread.id).await?;
        let messages = detail.items.iter().filter(|item| is_message(item));
        let matches: Vec<_> = messages
            .filter_map(|item| Some((item, excerpt(item.detail.as_deref()?, text)?)))
            .collect();
        if !matches.is_empty() {
            found += 1;
            write(&thread, &matches, out)?;
        }
    }
    Ok(found)
}

fn is_message(item: &Item) -> bool {
    matches!(item.kind, ItemKind::UserMessage | ItemKind::AgentMessage)
}

/// A part of a message around a match, inert, and the range of the match.
type MatchExcerpt = (String, Range<usize>);

/// Returns the part of a message around the first match; `None` without a match.
fn excerpt(message: &str, text: &str) -> Option<MatchExcerpt> {
    let at = find(message, text)?;
    let start = message[..at.start].char_indices().rev().take(BEFORE).last();
    let start = start.map_or(at.start, |(start, _)| start);
    let before = one_line(&message[start..at.start]).into_owned();
    let matched = one_line(&message[at.clone()]).into_owned();
    let rest = &message[at.end..];
    let end = rest
        .char_indices()
        .nth(200)
        .map_or(rest.len(), |(end, _)| end);
    let range = before.len()..before.len() + matched.len();
    Some((before + &matched + &one_line(&rest[..end]), range))
}

/// Finds a text in any case. The lower case of a character may have another length, so positions are those of the message.
fn find(message: &str, text: &str) -> Option<Range<usize>> {
    let wanted: Vec<char> = text.to_lowercase().chars().collect();
    let lower = |character: char| character.to_lowercase();
    let mut characters: Vec<(usize, char)> = Vec::with_capacity(message.len());
    for (at, character) in message.char_indices() {
        characters.extend(lower(character).map(|lower| (at, lower)));
    }
    let is_match = |part: &[(usize, char)]| part.iter().map(|(_, it)| it).eq(&wanted);
    let mut parts = characters.windows(wanted.len().max(1));
    let index = parts.position(is_match)?;
    let end = characters.get(index + wanted.len());
    Some(characters[index].0..end.map_or(message.len(), |(end, _)| *end))
}

fn write(
    thread: &ThreadSummary,
    matches: &[(&Item, MatchExcerpt)],
    out: &mut impl Write,
) -> io::Result<()> {
    let style = Style::for_stdout();
    let width = io::stdout().is_terminal().then(columns);
    let cut = |text: &str| width.map_or_else(|| text.to_owned(), |width| style.cut(text, width));
    let changed = local_time::minute(&thread.updated_at);
    let (id, title) = (short(&thread.id), one_line(&thread.title));
    let heading = cut(&format!("{id}  {changed}  {title}"));
    writeln!(out, "{}", style.paint(Colour::Bold, &heading))?;
    for (item, (text, range)) in matches.iter().take(MESSAGES) {
        let mark = match item.kind {
            ItemKind::UserMessage => ">",
            _ => " ",
        };
        let (before, rest) = text.split_at(range.start);
        let (matched, after) = rest.split_at(range.len());
        let (before, matched) = (
            style.unmarked(before, &mut None),
            style.unmarked(matched, &mut None),
        );
        let used = 4 + crate::terminal::width_of(&before) + crate::terminal::width_of(&matched);
        let after = style.unmarked(after, &mut None);
        let after = width.map_or_else(
            || after.clone(),
            |width| style.cut(&after, width.saturating_sub(used)),
        );
        let matched = style.paint(Colour::Good, &matched);
        writeln!(out, "  {mark} {before}{matched}{after}")?;
    }
    match matches.len().saturating_sub(MESSAGES) {
        0 => Ok(()),
        more => writeln!(out, "    {} {more} more", style.dots()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_is_found_in_any_case_with_its_surroundings() {
        let found = |message: &str, text: &str| {
            let (part, range) = excerpt(message, text)?;
            Some((part[range].to_owned(), part))
        };
        let (matched, part) = found("Fix the FAILING\ntest", "failing").unwrap();
        assert_eq!(
            (matched.as_str(), part.as_str()),
            ("FAILING", "Fix the FAILING\\ntest")
        );
        let (matched, _) = found("the İstanbul ÉCOLE", "école").unwrap();
        assert_eq!(matched, "ÉCOLE");
        assert!(found("some text", "other").is_none());
        let long = format!("{}needle{}", "x".repeat(10_000), "y".repeat(10_000));
        let (_, part) = found(&long, "needle").unwrap();
        assert!(part.len() < 300, "{}", part.len());
        assert!(
            found("\x1b[2J needle", "needle")
                .unwrap()
                .1
                .starts_with("\\u{1b}")
        );
    }
}
