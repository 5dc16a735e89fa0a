//! What a person sees: lines, tables and tones; or JSON, when asked for.
//!
//! Colour goes only to a terminal that wants it (`NO_COLOR` is honoured), and text that others wrote can never steer the
//! terminal: here control characters are taken out of it, or escaped in JSON.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Cell, Color, ContentArrangement, presets};
use serde::Serialize;

/// No table is wrapped to fewer columns.
const WIDTH_MIN: u16 = 20;

/// Where output goes and in which form.
pub struct Screen {
    json: bool,
    terminal: bool,
    out: anstream::AutoStream<io::Stdout>,
}

/// What a word means to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Dim,
    Good,
    Busy,
    Warn,
    Bad,
}

impl Screen {
    pub fn new(json: bool) -> Self {
        Self {
            json,
            terminal: io::stdout().is_terminal(),
            out: anstream::stdout(),
        }
    }

    /// Whether the answer is to be printed as JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Prints `value` as JSON: indented for a person's eyes, on one line for a program's.
    pub fn value<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let text = if self.terminal {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        self.json_line(&text?)
    }

    /// Prints `value` on one line, for streams of values.
    pub fn value_line<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        self.json_line(&serde_json::to_string(value)?)?;
        self.out.flush()
    }

    /// A program gets it byte for byte, a terminal the same value in characters that do not steer it.
    fn json_line(&mut self, text: &str) -> io::Result<()> {
        let text = match self.terminal {
            true => escaped(text),
            false => Cow::Borrowed(text),
        };
        writeln!(self.out, "{text}")
    }

    pub fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        // A terminal that does not know its width says 0.
        let width = table
            .inner
            .width()
            .filter(|width| self.terminal && *width >= WIDTH_MIN);
        write!(self.out, "{}", table.render(width))
    }

    /// Starts the picture anew, for watching.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.terminal {
            write!(self.out, "\u{1b}[H\u{1b}[2J")?;
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Rows under headings, without borders: easy on the eye and on `awk`.
pub struct Table {
    inner: comfy_table::Table,
    empty: &'static str,
}

impl Table {
    /// A table that prints `empty` when it has no row.
    pub fn new<const N: usize>(headings: [&str; N], empty: &'static str) -> Self {
        let mut inner = Self::bare();
        inner.set_header(headings.map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)));
        Self { inner, empty }
    }

    /// Names and values, one pair per row.
    pub fn facts() -> Self {
        Self {
            inner: Self::bare(),
            empty: "",
        }
    }

    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.inner.add_row(cells);
    }

    /// One line of facts; nothing if there is nothing to say.
    pub fn fact(&mut self, name: &str, value: impl Into<Option<Cell>>) {
        if let Some(value) = value.into() {
            self.inner.add_row([toned(name, Tone::Dim), value]);
        }
    }

    fn bare() -> comfy_table::Table {
        let mut inner = comfy_table::Table::new();
        inner
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .enforce_styling();
        // Tones end with the text, so that the padding after it can be cut.
        inner.style_text_only();
        inner
    }

    /// The table as text, wrapped to `width` if there is one.
    fn render(&self, width: Option<u16>) -> String {
        if self.inner.is_empty() {
            return if self.empty.is_empty() {
                String::new()
            } else {
                format!("{}\n", self.empty)
            };
        }
        let mut inner = self.inner.clone();
        match width {
            Some(width) => inner.set_width(width),
            None => inner.set_content_arrangement(ContentArrangement::Disabled),
        };
        for column in inner.column_iter_mut() {
            column.set_padding((0, 2));
        }
        inner
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }
}

pub fn cell(text: impl Display) -> Cell {
    toned(text, Tone::Plain)
}

pub fn toned(text: impl Display, tone: Tone) -> Cell {
    let text = text.to_string();
    let cell = Cell::new(clean(&text));
    match tone {
        Tone::Plain => cell,
        Tone::Dim => cell.add_attribute(Attribute::Dim),
        Tone::Good => cell.fg(Color::Green),
        Tone::Busy => cell.fg(Color::Cyan),
        Tone::Warn => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
    }
}

/// A word in its tone, for use inside a line.
pub fn paint(text: impl Display, tone: Tone) -> String {
    let code = match tone {
        Tone::Plain => return text.to_string(),
        Tone::Dim => 2,
        Tone::Good => 32,
        Tone::Busy => 36,
        Tone::Warn => 33,
        Tone::Bad => 31,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Whether a terminal does something else with it than show it: C0 but for the line break, DEL, C1, and all that changes
/// the direction of writing.
fn steers(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON that says the same and does not steer a terminal.
fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(steers) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            // Printed JSON has them only between values that are kept as they came.
            '\t' | '\r' => out.push(' '),
            c if steers(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Text that others wrote, without what would steer a terminal. Line breaks stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.contains(steers) {
        Cow::Owned(
            text.chars()
                .map(|c| if steers(c) { '\u{fffd}' } else { c })
                .collect(),
        )
    } else {
        Cow::Borrowed(text)
    }
}

/// The first line of `text`, at most `max` characters long.
pub fn brief(text: &str, max: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut = line.chars().count() > max || text.lines().nth(1).is_some();
    let mut short: String = line
        .chars()
        .take(if cut { max.saturating_sub(1) } else { max })
        .collect();
    if cut {
        short.push('…');
    }
    clean(&short).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_table_lines_up_its_columns_and_has_no_trailing_space() {
        let mut table = Table::new(["ID", "STATUS"], "no tasks");
        table.row([cell("a"), toned("ready", Tone::Good)]);
        table.row([cell("long-id"), cell("x")]);
        let text = plain(&table.render(None));
        assert_eq!(
            text.lines().map(str::trim_end).collect::<Vec<_>>(),
            ["ID       STATUS", "a        ready", "long-id  x"]
        );
    }

    #[test]
    fn an_empty_table_says_so() {
        assert_eq!(
            Table::new(["ID"], "no tasks").render(Some(80)),
            "no tasks\n"
        );
        assert_eq!(Table::facts().render(None), "");
    }

    #[test]
    fn a_narrow_terminal_wraps_and_a_pipe_does_not() {
        let mut table = Table::new(["TITLE"], "none");
        table.row([cell("one two three four five six")]);
        assert_eq!(table.render(None).lines().count(), 2);
        assert!(table.render(Some(12)).lines().count() > 2);
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{7}"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(clean("two\nlines"), "two\nlines");
        let mut table = Table::new(["TITLE"], "none");
        table.row([cell("x\u{1b}]0;owned\u{7}y")]);
        assert!(!table.render(None).contains("\u{1b}]0"));
    }

    #[test]
    fn json_for_a_terminal_is_the_same_value_in_harmless_characters() {
        let steering =
            "\u{1b}[2J\u{7f}\u{80}\u{9b}2J\u{9f}\u{61c}\u{200e}\u{200f}\u{202e}\u{2066}\u{2069}";
        let value = serde_json::json!({ steering: [format!("{steering}é😀\u{200d}\n")] });
        for text in [
            serde_json::to_string(&value).unwrap(),
            serde_json::to_string_pretty(&value).unwrap(),
        ] {
            let shown = escaped(&text);
            assert!(!shown.contains(steers), "{shown}");
            assert!(shown.contains("\\u009b2J") && shown.contains("é😀\u{200d}"));
            let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(read, value);
        }
        // Kept as it came from elsewhere, with spaces of its own.
        assert_eq!(escaped("{\"a\":\r[1,\t2]}"), "{\"a\": [1, 2]}");
        assert_eq!(escaped("{\"a\":\n1}"), "{\"a\":\n1}");
    }

    #[test]
    fn brief_keeps_one_line_within_its_bound() {
        assert_eq!(brief("short", 5), "short");
        assert_eq!(brief("longer", 5), "long…");
        assert_eq!(brief("two\nlines", 9), "two…");
    }
}
