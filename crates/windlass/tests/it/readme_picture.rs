//! The terminal picture of the README, generated from a real run. `WINDLASS_BLESS=1` regenerates it.

use std::fmt::Write as _;
use std::path::Path;

use crate::run::RunFixture;
use crate::support::{Sandbox, Terminal};

const COLUMNS: u16 = 80;
/// Width and height of a character, in pixels.
const LETTER: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 14.0;

/// A character and its colour code.
type Cell = (char, u8);

/// The contents of a terminal: rows of coloured characters. It supports only the escape codes that the command line writes.
fn rows(shown: &str) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = vec![Vec::new()];
    let (mut column, mut colour) = (0, 0);
    let mut letters = shown.chars();
    while let Some(letter) = letters.next() {
        let row = rows.last_mut().unwrap();
        match letter {
            '\r' => column = 0,
            '\n' => {
                rows.push(Vec::new());
                column = 0;
            }
            '\x1b' => {
                assert_eq!(letters.next(), Some('['));
                let mut code = String::new();
                let function = letters.by_ref().find(|it| {
                    let is_function = it.is_ascii_alphabetic();
                    code.extend((!is_function).then_some(*it));
                    is_function
                });
                match function {
                    Some('K') => row.clear(),
                    // The last of several styles is the colour.
                    _ => colour = code.rsplit(';').next().unwrap().parse().unwrap_or(0),
                }
            }
            letter => {
                row.resize(column.max(row.len()), (' ', 0));
                row.truncate(column);
                row.push((letter, colour));
                column += 1;
                assert!(column <= usize::from(COLUMNS), "a row is too long: {row:?}");
            }
        }
    }
    while rows.last().is_some_and(Vec::is_empty) {
        rows.pop();
    }
    rows
}

fn svg(rows: &[Vec<Cell>]) -> String {
    let (wide, high) = LETTER;
    let width = f64::from(COLUMNS) * wide + 2.0 * MARGIN;
    let height = rows.len() as f64 * high + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f24\"/>\n"
    );
    for (number, row) in rows.iter().enumerate() {
        let y = MARGIN + (number as f64 + 0.75) * high;
        let mut start = 0;
        for part in row.chunk_by(|one, next| one.1 == next.1) {
            let text: String = part.iter().map(|(letter, _)| *letter).collect();
            let x = MARGIN + f64::from(u32::try_from(start).unwrap()) * wide;
            let (length, colour) = (part.len() as f64 * wide, colour(part[0].1));
            start += part.len();
            if text.trim().is_empty() {
                continue;
            }
            let text = text
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;");
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\" textLength=\"{length:.1}\" xml:space=\"preserve\">{text}</text>"
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}

fn colour(code: u8) -> &'static str {
    match code {
        2 => "#8b949e",
        31 => "#ff7b72",
        32 => "#7ee787",
        33 => "#e3b341",
        36 => "#79c0ff",
        _ => "#e6edf3",
    }
}

/// Returns the texts of a picture without the parts that vary: times, IDs and the name of the sandbox.
fn without_timing(picture: &str) -> Vec<String> {
    let mut without_timing = Vec::new();
    for line in picture.lines() {
        let Some((_, text)) = line.split_once("\"preserve\">") else {
            continue;
        };
        let words = text.split(' ').map(|word| {
            let bare = word.trim_end_matches(';');
            let is_time = bare
                .split('s')
                .next()
                .is_some_and(|it| it.parse::<f64>().is_ok());
            let is_id = bare.len() == 8 && bare.bytes().all(|it| it.is_ascii_hexdigit());
            let is_sandbox = ["bubblewrap)", "landlock)"].contains(&word);
            if is_time || is_id || is_sandbox {
                "*"
            } else {
                word
            }
        });
        without_timing.push(words.collect::<Vec<_>>().join(" "));
    }
    without_timing
}

#[test]
fn readme_picture_matches_a_run() {
    if Sandbox::all("readme_picture_matches_a_run").is_empty() {
        return;
    }
    let fixture = RunFixture::new();
    let source = fixture.workspace().join("src");
    std::fs::create_dir(&source).unwrap();
    for (name, text) in [
        ("README.md", "# Greeter\n\nGreets its caller.\n"),
        (
            "src/lib.rs",
            "pub fn greet() -> &'static str {\n    \"hello\"\n}\n",
        ),
    ] {
        std::fs::write(fixture.workspace().join(name), text).unwrap();
    }
    let prompt = "What is in this directory?";
    let mut command = fixture.command(&["run", prompt], &[]);
    let mut terminal = Terminal::of_width(COLUMNS, &mut command);
    let mut shown = format!("$ windlass run \"{prompt}\"\r\n");
    shown.push_str(&terminal.until(&["commands too): "]));
    terminal.type_in("y");
    let (rest, status) = terminal.rest();
    assert!(status.success(), "{shown}{rest}");
    shown.push_str(&rest);
    let picture = svg(&rows(&shown));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/terminal.svg");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, &picture).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        without_timing(&current),
        without_timing(&picture),
        "docs/terminal.svg is of another day; WINDLASS_BLESS=1 makes it again"
    );
}
