//! Typing a text into a program's terminal: pure, for whoever has the terminal.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

pub const ENTER: &[u8] = b"\r";
/// A program that takes a burst of keys for a paste must not take Enter for a part of it.
pub const ENTER_AFTER: Duration = Duration::from_millis(150);
/// Nobody is interrupted who typed so recently,
pub const QUIET_FOR: Duration = Duration::from_secs(2);
/// but nothing waits for longer.
pub const PATIENCE: Duration = Duration::from_secs(30);
const IDS_MAX: usize = 4096;

/// The keys of a text without its control characters, and without Enter. Where it is no paste, a new line is Ctrl-J,
/// which most programs tell from Enter, and a tab is a space, which completes nothing.
pub fn keys(text: &str, is_paste: bool) -> Vec<u8> {
    let (line, tab) = if is_paste { ('\r', '\t') } else { ('\n', ' ') };
    let text = text.replace("\r\n", "\n");
    let plain = text
        .trim_end_matches('\n')
        .chars()
        .filter_map(|letter| match letter {
            '\n' => Some(line),
            '\t' => Some(tab),
            letter => (!letter.is_control()).then_some(letter),
        });
    let plain: String = plain.collect();
    match is_paste {
        true => format!("\x1b[200~{plain}\x1b[201~").into_bytes(),
        false => plain.into_bytes(),
    }
}

/// When a text that has waited since `since` may be typed, the person having last typed at `typed`.
pub fn may_type_at(since: Instant, typed: Option<Instant>) -> Instant {
    let quiet = typed.map_or(since, |typed| typed + QUIET_FOR);
    quiet.clamp(since, since + PATIENCE)
}

/// Whether the program switched bracketed paste on, by what it printed.
#[derive(Debug, Default)]
pub struct PasteMode {
    is_on: bool,
    seen: Seen,
}

/// So much of `ESC [ ? … 2004 … h`.
#[derive(Debug, Default)]
enum Seen {
    #[default]
    Nothing,
    Escape,
    Bracket,
    Numbers {
        number: u32,
        has_it: bool,
    },
}

impl PasteMode {
    const NUMBER: u32 = 2004;

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    pub fn watch(&mut self, output: &[u8]) {
        for byte in output {
            self.seen = match (std::mem::take(&mut self.seen), byte) {
                (_, 0x1b) => Seen::Escape,
                (Seen::Escape, b'[') => Seen::Bracket,
                (Seen::Escape, b'c') => {
                    self.is_on = false;
                    Seen::Nothing
                }
                (Seen::Bracket, b'?') => Seen::Numbers {
                    number: 0,
                    has_it: false,
                },
                (Seen::Numbers { number, has_it }, b'0'..=b'9') => {
                    let number = number
                        .saturating_mul(10)
                        .saturating_add(u32::from(byte - b'0'));
                    Seen::Numbers { number, has_it }
                }
                (Seen::Numbers { number, has_it }, b';') => {
                    let has_it = has_it || number == Self::NUMBER;
                    Seen::Numbers { number: 0, has_it }
                }
                (Seen::Numbers { number, has_it }, b'h' | b'l') => {
                    if has_it || number == Self::NUMBER {
                        self.is_on = *byte == b'h';
                    }
                    Seen::Nothing
                }
                (_, _) => Seen::Nothing,
            };
        }
    }
}

/// The ids of what was typed: nothing is typed twice.
#[derive(Debug, Default)]
pub struct Typed {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Typed {
    /// Whether it was not typed before; from now on it was.
    pub fn is_new(&mut self, id: &str) -> bool {
        if !self.known.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
