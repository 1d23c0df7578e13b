use super::*;

const RICH: Style = Style {
    is_live: true,
    has_colour: true,
    has_unicode: true,
};
const PLAIN: Style = Style {
    has_colour: false,
    ..RICH
};

const ANSWER: &str = "\
# Title

A paragraph with **bold**, *italic*, `code` and a [link](https://example.com).

- first item that is longer than one row of it
  - nested `item`
1. numbered

> quoted **text**

| Name | Count |
|:-----|------:|
| a | 1 |
| `long` name | 22 |

```rust
let x = 1; // one
```

---
end
";

/// Shows escape sequences of styles as `{1;36}`, and no style as `{}`.
fn visible(text: &str) -> String {
    text.replace("\x1b[0;", "{")
        .replace("\x1b[0m", "{}")
        .split('{')
        .enumerate()
        .map(|(index, part)| match (index, part.split_once('m')) {
            (1.., Some((code, rest)))
                if code.bytes().all(|it| it.is_ascii_digit() || it == b';') =>
            {
                format!("{{{code}}}{rest}")
            }
            (0, _) => part.to_owned(),
            _ => format!("{{{part}"),
        })
        .collect()
}

/// Renders a text that arrives in pieces of `size` characters.
fn streamed(text: &str, style: Style, width: usize, size: usize) -> String {
    let mut markdown = Markdown::new(style);
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters
        .chunks(size)
        .map(|piece| piece.iter().collect::<String>());
    let mut out: String = pieces.map(|piece| markdown.add(&piece, width)).collect();
    out.push_str(&markdown.flush(width));
    out
}

fn without_styles(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
}

#[test]
fn answer_is_rendered_with_styles() {
    insta::assert_snapshot!(visible(&streamed(ANSWER, RICH, 40, 7)));
}

#[test]
fn answer_without_colours_retains_its_marks() {
    insta::assert_snapshot!(streamed(ANSWER, PLAIN, 40, 7));
}

#[test]
fn pieces_do_not_change_the_text() {
    for style in [RICH, PLAIN] {
        let whole = without_styles(&streamed(ANSWER, style, 40, usize::MAX));
        for size in [1, 2, 3, 5, 8, 13, 64] {
            assert_eq!(
                without_styles(&streamed(ANSWER, style, 40, size)),
                whole,
                "{size}"
            );
        }
    }
}

#[test]
fn untrusted_text_is_inert() {
    for hostile in [
        "\x1b[2J",
        "a\rb",
        "\u{202e}x",
        "&#27;[2J",
        "&#x1b;]0;title&#7;",
        "`&#27;`\x1b",
        "| a |\n|---|\n| &#27;[2J\x1b[3J |\n",
        "```x\x1b[1m\n\x1b[2J\n```\x07\n",
        "# \u{9b}2J\n\u{85}\u{2028} x\n> \x1b",
        "[&#27;](\x1b)<\x1b>",
        "\u{b}\u{c}x",
    ] {
        for size in [1, usize::MAX] {
            let out = without_styles(&streamed(hostile, RICH, 20, size));
            assert_eq!(lines(&out), out, "{hostile:?}");
        }
    }
}

#[test]
fn rendering_cannot_assemble_the_mark_of_a_question() {
    for has_unicode in [true, false] {
        let style = Style {
            has_unicode,
            ..RICH
        };
        for forged in [
            "!**!**",
            "\\!\\!",
            "&#33;&#33;",
            "&#x258c; Allow?",
            "!`!`",
            "| &#33;! |\n|-|\n",
            "▌",
            "```\n!!▌\n",
            "!\u{200d}!",
        ] {
            let out = without_styles(&streamed(forged, style, 40, 1));
            let out = out.replace('\u{200d}', "");
            assert!(!out.contains(style.mark()), "{forged}: {out}");
        }
    }
}

#[test]
fn endless_input_is_not_held_back() {
    for unit in [
        "x", " ", "*", "`", "`` ", "[", "|", "| ", "> ", "-", "漢", "e\u{301}", "1", "~~~", "&",
        "\\", "<a ",
    ] {
        let mut markdown = Markdown::new(RICH);
        let mut written = 0;
        for _ in 0..60_000 / unit.len() {
            written += markdown.add(unit, 80).len();
        }
        assert!(written > 0, "{unit:?}");
        assert!(markdown.held.len() <= MAX_TABLE + unit.len(), "{unit:?}");
    }
    let mut markdown = Markdown::new(RICH);
    markdown.add("```\n", 80);
    assert!(!markdown.add(&"x".repeat(MAX_CODE_LINE + 1), 80).is_empty());
}

#[test]
fn interrupted_block_continues() {
    let mut markdown = Markdown::new(PLAIN);
    let mut out = markdown.add("```rust\nlet x", 80);
    out.push_str(&markdown.flush(80));
    out.push_str(&markdown.add(" = 1;\n# no heading\n```\n- item", 80));
    out.push_str(&markdown.flush(80));
    assert_eq!(out, "```rust\nlet x = 1;\n# no heading\n```\n• item");
    // A message that leaves a block open does not affect the next one.
    markdown.begin_line();
    markdown.add("\n```\n", 80);
    markdown.end_message();
    assert_eq!(markdown.add("- item\n", 80), "• item\n");
}

#[test]
fn wide_table_is_wrapped_and_a_table_without_space_is_shown_as_written() {
    let source = "| a | b |\n|---|---|\n| one two three four five six | 漢字漢字漢字 |\n";
    let table = streamed(source, PLAIN, 24, 5);
    for row in table.lines() {
        assert!(width_of(row) <= 24, "{row}");
    }
    let bars: Vec<_> = table
        .lines()
        .filter_map(|row| row.find(['│', '┼']).map(|at| width_of(&row[..at])))
        .collect();
    assert!(bars.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
    let many = format!("{}|\n{}|\n", "| a ".repeat(30), "|---".repeat(30));
    assert_eq!(streamed(&many, PLAIN, 40, 9), many.trim_end());
    let none = "| only | one row\n";
    assert_eq!(streamed(none, PLAIN, 40, 1), none.trim_end());
}
