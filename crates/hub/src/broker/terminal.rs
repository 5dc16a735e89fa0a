//! The terminal that the hub runs in, as one more place where the person reads.
//!
//! It sits at the person's desk like any connection: whoever else reads there gets every message, too.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::{AgentId, USER};
use switchboard_wire::squidrun::to_wire::signed;
use tokio::time::sleep;

use super::socket::Socket;
use super::state::Broker;

/// A desk that could not be sat down at is tried again so soon.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Prints the person's messages until the hub stops. What is printed is delivered.
pub(crate) async fn show(broker: Arc<Broker>) {
    let user = AgentId::from(USER);
    while !broker.stopping.is_cancelled() {
        let now_ms = broker.hub.wall().0;
        let socket = Arc::new(Socket::new(broker.next_client(), now_ms));
        let Ok(desk) = broker.enter(&user, &socket).await else {
            sleep(RETRY_AFTER).await;
            continue;
        };
        desk.seat(&socket, None);
        while socket.outbox.ended().is_none() {
            while let Some(frame) = socket.outbox.next() {
                let line = line(&frame.text);
                // A terminal that is stopped stops nobody else.
                let printed = tokio::task::spawn_blocking(move || match line {
                    Some(line) => writeln!(std::io::stdout(), "{line}").is_ok(),
                    None => true,
                });
                if matches!(printed.await, Ok(true)) {
                    desk.wrote(&socket, frame.mail.as_slice());
                }
            }
            tokio::select! {
                () = broker.stopping.cancelled() => break,
                () = socket.outbox.rung() => {}
            }
        }
        desk.left(&socket);
    }
}

/// A frame as the person reads it; nothing in it does anything to the terminal.
fn line(frame: &str) -> Option<String> {
    let frame: Value = serde_json::from_str(frame).ok()?;
    let said = signed(frame["from"].as_str()?, frame["content"].as_str()?);
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        letter if letter.is_control() => '\u{fffd}',
        letter => letter,
    };
    Some(said.chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_shown_with_its_sender_and_does_nothing_to_the_terminal() {
        let shown = |from: &str, content: &str| {
            line(
                &serde_json::json!({ "type": "message", "from": from, "content": content })
                    .to_string(),
            )
        };
        let told = shown("architect", "(ARCH #1): a\n\tb");
        assert_eq!(told.as_deref(), Some("(ARCH #1): a\n\tb"));
        let told = shown("sam", "a\u{1b}[2Jb\u{9b}");
        assert_eq!(told.as_deref(), Some("sam: a\u{fffd}[2Jb\u{fffd}"));
        assert_eq!(line(""), None);
    }
}
