//! Tables, laid out when they are complete.

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};
use windlass_core::bounds::lines;

use super::super::text_style::TextStyle;
use super::super::word_wrap::WordWrap;
use super::super::{Style, width_of, wrap_rows};
use super::inline::spans;

/// Columns that are wider than this are narrowed if the table does not fit.
const MIN_COLUMN: usize = 6;

/// The parts of a cell's text, inert.
type Cell = Vec<(String, TextStyle)>;

/// Formats the lines of a table. Lines that are no table, and tables with too many columns for the width, are returned unchanged.
pub(super) fn format_table(source: &str, style: Style, width: usize) -> String {
    let unchanged = || style.unmarked(&lines(source), &mut None);
    let Some((alignments, rows)) = parse(source, style) else {
        return unchanged();
    };
    let Some(widths) = column_widths(&rows, width) else {
        return unchanged();
    };
    let (bar, dash, cross) = if style.has_unicode {
        (" │ ", "─", "─┼─")
    } else {
        (" | ", "-", "-+-")
    };
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        let is_header = number == 0;
        let cells = row.iter().zip(&widths);
        let cells: Vec<Vec<String>> = cells
            .map(|(cell, width)| wrapped(cell, is_header, style, *width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let columns = cells.iter().zip(&widths).zip(&alignments);
            let columns = columns.map(|((cell, width), alignment)| {
                let text = cell.get(line).map_or("", String::as_str);
                padded(text, *width, *alignment)
            });
            let row = columns.collect::<Vec<_>>().join(bar);
            out.push_str(row.trim_end());
            out.push('\n');
        }
        if is_header {
            let dashes = widths.iter().map(|width| dash.repeat(*width));
            out.push_str(&dashes.collect::<Vec<_>>().join(cross));
            out.push('\n');
        }
    }
    out
}

/// Returns the alignment of each column and the cells of each row; `None` if the text is not one table.
fn parse(source: &str, style: Style) -> Option<(Vec<Alignment>, Vec<Vec<Cell>>)> {
    let (mut alignments, mut rows) = (None, Vec::<Vec<Cell>>::new());
    let mut end = 0;
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Table(columns)) if alignments.is_none() => {
                end = range.end;
                alignments = Some(columns);
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => {
                let cell = source[range].trim().trim_matches('|').trim();
                rows.last_mut()?.push(parse_cell(cell, style));
            }
            Event::End(TagEnd::Table) => break,
            _ => {}
        }
    }
    let is_whole = source[end..].trim().is_empty();
    alignments.filter(|_| is_whole).map(|it| (it, rows))
}

fn parse_cell(source: &str, style: Style) -> Cell {
    let source = source.replace("\\|", "|");
    let mut last = None;
    let mut inert = |text: &str| style.unmarked(&lines(text).replace('\t', " "), &mut last);
    if !style.has_colour {
        return vec![(inert(&source), TextStyle::default())];
    }
    let spans = spans(&source).into_iter();
    spans.map(|(text, style)| (inert(&text), style)).collect()
}

/// Returns the width of each column: that of its widest cell, and less for the widest columns if the table does not fit; `None` if there are too many
/// columns.
fn column_widths(rows: &[Vec<Cell>], width: usize) -> Option<Vec<usize>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut widths = vec![1; columns];
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let cell = cell.iter().map(|(text, _)| width_of(text)).sum();
            widths[column] = widths[column].max(cell);
        }
    }
    let available = width.checked_sub(3 * columns.saturating_sub(1))?;
    let narrowed = |most: usize| widths.iter().map(move |width| (*width).min(most));
    let mut limits = (MIN_COLUMN..=available.max(MIN_COLUMN)).rev();
    let most = limits.find(|most| narrowed(*most).sum::<usize>() <= available)?;
    Some(narrowed(most).collect())
}

/// Wraps a cell into rows.
fn wrapped(cell: &Cell, is_header: bool, style: Style, width: usize) -> Vec<String> {
    let (mut wrap, mut out) = (WordWrap::new(style.has_colour), String::new());
    for (text, style) in cell {
        let style = if is_header {
            style.with(TextStyle::BOLD)
        } else {
            *style
        };
        wrap.put(&broken(text, width), style, width, &mut out);
    }
    wrap.end_word(width, &mut out);
    wrap.reset(&mut out);
    out.lines().map(|row| row.trim_end().to_owned()).collect()
}

/// Breaks words that are wider than a column: they would move the other columns.
fn broken(text: &str, width: usize) -> String {
    let words = text.split(' ').map(|word| wrap_rows(word, width).join(" "));
    words.collect::<Vec<_>>().join(" ")
}

fn padded(text: &str, width: usize, alignment: Alignment) -> String {
    let blanks = width.saturating_sub(width_of(&without_styles(text)));
    let before = match alignment {
        Alignment::None | Alignment::Left => 0,
        Alignment::Center => blanks / 2,
        Alignment::Right => blanks,
    };
    format!(
        "{}{text}{}",
        " ".repeat(before),
        " ".repeat(blanks - before)
    )
}

/// Removes the escape sequences of styles.
fn without_styles(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or("", |(_, rest)| rest)
    })
}
