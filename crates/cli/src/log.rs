//! How the log looks to a person: one short line each, what happened and why. Fields are for programs, and those read
//! `--log json`.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::screen::{Tone, clean, paint};

/// Lines of text.
pub struct Lines {
    /// For a person's eyes: the time of day, and a level only where something is wrong.
    pub is_terminal: bool,
    pub is_coloured: bool,
}

/// What is said of an event.
#[derive(Default)]
struct Said {
    message: String,
    /// Why, where a message leaves that to its error.
    error: Option<String>,
    fields: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = Some(format!("{value:?}")),
            name => {
                let _ = write!(self.fields, " {name}={value:?}");
            }
        }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        match self.is_terminal {
            true => write!(out, "{}", jiff::Zoned::now().strftime("%H:%M:%S"))?,
            false => SystemTime.format_time(&mut out)?,
        }
        let tone = match level {
            Level::ERROR => Tone::Bad,
            Level::WARN => Tone::Warn,
            _ => Tone::Plain,
        };
        if !self.is_terminal || tone != Tone::Plain {
            let tone = if self.is_coloured { tone } else { Tone::Plain };
            let name = level.as_str();
            let gap = 6 - name.len().min(5);
            write!(out, "{:gap$}{}", "", paint(name, tone))?;
        }
        let mut said = Said::default();
        event.record(&mut said);
        write!(out, " {}", clean(&said.message))?;
        if let Some(error) = &said.error {
            write!(out, ": {}", clean(error))?;
        }
        // Who looks for something wants to see everything.
        if level > Level::INFO {
            write!(out, "{}", clean(&said.fields))?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Page {
        type Writer = Page;

        fn make_writer(&self) -> Page {
            self.clone()
        }
    }

    /// The lines without their times.
    fn said(is_terminal: bool) -> Vec<String> {
        let page = Page::default();
        let lines = Lines {
            is_terminal,
            is_coloured: false,
        };
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_writer(page.clone())
            .event_format(lines)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(agent.id = "ann", "ann joined");
            tracing::warn!(error = "no space", row = 7, "a batch was not written");
            tracing::debug!(row = 7, word = "x", "a look");
            tracing::info!("steers \u{1b}[2J");
        });
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines();
        let without_time = |line: &str| line.split_once(' ').unwrap().1.to_owned();
        lines.map(without_time).collect()
    }

    #[test]
    fn a_line_is_its_message_and_its_error() {
        let expected = [
            "ann joined",
            " WARN a batch was not written: no space",
            "a look row=7 word=x",
            "steers \u{fffd}[2J",
        ];
        assert_eq!(said(true), expected);
    }

    #[test]
    fn a_file_gets_the_level_of_every_line() {
        let expected = [
            " INFO ann joined",
            " WARN a batch was not written: no space",
            "DEBUG a look row=7 word=x",
            " INFO steers \u{fffd}[2J",
        ];
        assert_eq!(said(false), expected);
    }
}
