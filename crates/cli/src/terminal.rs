//! The user's terminal while a program has it: raw, and as it was again whatever happens.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use switchboard_child::Size;

/// For programs that run where there is no terminal.
const SIZE: Size = Size {
    rows: 24,
    columns: 80,
};
/// Mouse, focus, second screen and bracketed paste off, cursor and colours as usual.
const PLAIN: &[u8] = b"\x1b[?1000;1002;1003;1004;1006;1047;2004l\x1b[?25h\x1b[0m";

/// A terminal that hands every key on. Dropped, it is as it was before.
pub struct Raw(Termios);

impl Raw {
    /// None where the input is no terminal.
    pub fn enter() -> io::Result<Option<Raw>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(Some(Raw(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // One that hung up has nothing to be restored.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Takes back what a program switched on and could not switch off any more.
pub fn calm() {
    let mut out = io::stdout();
    if out.is_terminal() {
        let _ = out.write_all(PLAIN).and_then(|()| out.flush());
    }
}

/// As large as the user's terminal.
pub fn size() -> Size {
    let known = tcgetwinsize(stdin()).or_else(|_| tcgetwinsize(stdout()));
    match known {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => Size {
            rows: size.ws_row,
            columns: size.ws_col,
        },
        Ok(_) | Err(_) => SIZE,
    }
}

/// Ctrl-C, or a polite kill.
pub async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}
