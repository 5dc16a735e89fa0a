//! Server-sent events: bytes in, whole events out. No sockets here.

/// Longest line and longest event that is taken; a hub's events are far smaller.
pub const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One dispatched event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

/// The stream sent a line or an event past the bound.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// Collects bytes and hands out events as their blank line arrives.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    after_cr: bool,
}

impl Parser {
    /// Takes the next bytes of the stream and appends the events they complete to `frames`.
    pub fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(frames)?,
                _ => {
                    if self.line.len() >= EVENT_BYTES_MAX {
                        return Err(TooLong);
                    }
                    self.line.push(byte);
                }
            }
        }
        Ok(())
    }

    fn end_line(&mut self, frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            if std::mem::take(&mut self.has_data) {
                frames.push(frame);
            }
            return Ok(());
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => self.frame.event = Some(value.to_owned()),
            "data" => {
                if self.frame.data.len() + value.len() > EVENT_BYTES_MAX {
                    return Err(TooLong);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // Comments keep the line alive, `retry` is ours to decide, and unknown fields are to be ignored.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: &str, event: &str, data: &str) -> Frame {
        Frame {
            id: Some(id.to_owned()),
            event: Some(event.to_owned()),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_come_out_whole_however_the_bytes_are_cut() {
        let text = ": hello\n\nid: 1\nevent: task_created\ndata: {\"a\":1}\n\nid:2\r\nevent:x\r\ndata:one\r\ndata: two\r\n\r\nid: 3\n\n";
        let expected = [
            frame("1", "task_created", "{\"a\":1}"),
            frame("2", "x", "one\ntwo"),
        ];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let mut frames = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                parser.feed(chunk, &mut frames).unwrap();
            }
            assert_eq!(frames, expected, "chunks of {size}");
        }
    }

    #[test]
    fn an_event_that_was_cut_off_is_never_handed_out() {
        let mut frames = Vec::new();
        Parser::default()
            .feed(b"id: 1\ndata: {\"a\"", &mut frames)
            .unwrap();
        assert_eq!(frames, []);
    }

    #[test]
    fn lines_are_bounded() {
        for (length, fits) in [
            (EVENT_BYTES_MAX - 1, true),
            (EVENT_BYTES_MAX, true),
            (EVENT_BYTES_MAX + 1, false),
        ] {
            let line = vec![b'x'; length];
            assert_eq!(
                Parser::default().feed(&line, &mut Vec::new()).is_ok(),
                fits,
                "{length}"
            );
        }
    }
}
