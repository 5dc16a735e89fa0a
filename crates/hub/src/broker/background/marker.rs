//! Notices in what a program prints that it says it is done.

/// A line of its own.
const DONE: &str = "__HM_BG_DONE__";
/// A longer line says something else.
const LINE_BYTES_MAX: usize = 4096;

#[derive(Default)]
pub(super) struct Marker {
    line: Vec<u8>,
}

impl Marker {
    /// Whether a line of what was printed so far is the marker.
    pub fn is_in(&mut self, printed: &[u8]) -> bool {
        let mut found = false;
        for byte in printed {
            match byte {
                b'\n' | b'\r' => {
                    found |= plain(&String::from_utf8_lossy(&self.line)).trim() == DONE;
                    self.line.clear();
                }
                byte if self.line.len() < LINE_BYTES_MAX => self.line.push(*byte),
                _ => {}
            }
        }
        found
    }

    /// Whether the last line is, which did not end.
    pub fn is_last(&mut self) -> bool {
        self.is_in(b"\n")
    }
}

/// A line without what terminals take for orders.
fn plain(line: &str) -> String {
    let mut letters = line.chars();
    let mut plain = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => match letters.next() {
                Some('[') => drop(letters.find(|it| ('@'..='~').contains(it))),
                Some(']') => drop(letters.find(|it| matches!(it, '\u{7}' | '\\'))),
                Some('(' | ')') => drop(letters.next()),
                Some(_) | None => {}
            },
            letter if letter.is_control() => {}
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_counts_as_a_line_of_its_own_however_it_is_dressed() {
        for printed in [
            "__HM_BG_DONE__\n",
            "working\r\n  __HM_BG_DONE__ \r\n",
            "\x1b[?25l\x1b[1;32m__HM_BG_DONE__\x1b[0m\r",
            "\x1b]0;title\x07__HM_BG_DONE__\n",
        ] {
            let mut marker = Marker::default();
            let (one, two) = printed.as_bytes().split_at(printed.len() / 2);
            assert!(marker.is_in(one) | marker.is_in(two), "{printed:?}");
        }
        for printed in [
            "print __HM_BG_DONE__ when you are done\n",
            "__HM_BG_DONE__",
            "x__HM_BG_DONE__\n",
            "__HM_BG_\nDONE__\n",
        ] {
            assert!(!Marker::default().is_in(printed.as_bytes()), "{printed:?}");
        }
        let mut marker = Marker::default();
        assert!(!marker.is_in(b"__HM_BG_DONE__") && marker.is_last());
        assert!(!marker.is_in(&[b'x'; 3 * LINE_BYTES_MAX]) && marker.line.len() == LINE_BYTES_MAX);
    }
}
