//! Whoever announces a restart with uncommitted work is warned: it would be lost with the pane.

use switchboard_core::{AgentId, MessageId, Priority, To};
use switchboard_wire::squidrun::Saying;
use switchboard_wire::squidrun::frame::SendAck;

use super::news::own_words;
use super::state::Broker;
use crate::git::Git;

const ANNOUNCED: &str = "ready for restart";
/// Who hears of it beside the sender.
const ARCHITECT: &str = "architect";

/// Who announces a restart with this, if it does.
pub(super) fn announced_by(saying: &Saying) -> Option<AgentId> {
    is_announced(&saying.content).then(|| saying.from.id().clone())
}

fn is_announced(text: &str) -> bool {
    let letters = text.as_bytes().windows(ANNOUNCED.len());
    letters
        .into_iter()
        .any(|part| part.eq_ignore_ascii_case(ANNOUNCED.as_bytes()))
}

impl Broker {
    /// The warning has an id that follows from the message: it is said once.
    pub(super) async fn warn_of(&self, restart: Option<AgentId>, ack: &SendAck) {
        let (Some(from), Some(message)) = (restart, &ack.message_id) else {
            return;
        };
        if !ack.accepted {
            return;
        }
        match Git::new(self.root.clone().into()).is_clean().await {
            Ok(false) => {}
            Ok(true) | Err(_) => return,
        }
        let text = format!(
            "[URGENT] {from} announces a restart, and {} has uncommitted work: commit first",
            self.root
        );
        let sender = self.roles().target(from.as_str()).map(|target| target.id());
        let told = sender.into_iter().chain([AgentId::from(ARCHITECT)]);
        let Some(to) = To::agents(told) else { return };
        let id = MessageId::from(format!("restart-{message}"));
        self.run_say(own_words(id, to, &text, Priority::Critical))
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_found_in_any_case_and_place() {
        for text in [
            "Ready for restart.",
            "(BUILDER #4): all done, READY FOR RESTART",
        ] {
            assert!(is_announced(text), "{text}");
        }
        for text in ["", "ready", "ready for a restart", "not yet ready for rest"] {
            assert!(!is_announced(text), "{text}");
        }
    }
}
