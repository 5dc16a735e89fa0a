//! What came before: an assignment runs once and a message is read once, however often they are delivered.

use std::collections::VecDeque;

use switchboard_wire::agentbus::message::{Inbound, TaskAssigned, TaskRevoked};

/// Assignments that are remembered.
pub(super) const ASSIGNMENTS_MAX: usize = 64;
/// Messages whose ids are remembered.
pub(super) const MESSAGES_MAX: usize = 1024;

/// What became of something that was delivered.
#[derive(Debug, PartialEq)]
pub(super) enum Arrival {
    New,
    /// It came before; the answer that was given then is to be given again.
    Again(Option<Box<Inbound<'static>>>),
}

/// The last assignments and how they were answered.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    known: VecDeque<Assignment>,
}

#[derive(Debug)]
struct Assignment {
    issue_number: u64,
    epoch: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Unanswered,
    Accepted(Inbound<'static>),
    /// Declined, finished or failed: the worker is through with it.
    Ended(Inbound<'static>),
    Revoked,
}

impl Assignments {
    pub fn arrive(&mut self, task: &TaskAssigned) -> Arrival {
        let newer = |known: &&Assignment| {
            known.issue_number == task.issue_number && known.epoch >= task.epoch
        };
        if let Some(known) = self.known.iter().find(newer) {
            return Arrival::Again(match &known.state {
                _ if known.epoch > task.epoch => None,
                State::Unanswered | State::Revoked => None,
                State::Accepted(answer) | State::Ended(answer) => Some(Box::new(answer.clone())),
            });
        }
        if self.known.len() >= ASSIGNMENTS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Assignment {
            issue_number: task.issue_number,
            epoch: task.epoch,
            state: State::Unanswered,
        });
        Arrival::New
    }

    /// Notes what the worker says about its task.
    pub fn answered(&mut self, answer: &Inbound<'static>) {
        let (issue_number, epoch, state) = match answer {
            Inbound::TaskAccepted(told) => (
                told.issue_number,
                Some(told.epoch),
                State::Accepted(answer.clone()),
            ),
            Inbound::TaskDeclined(told) => (
                told.issue_number,
                Some(told.epoch),
                State::Ended(answer.clone()),
            ),
            Inbound::TaskResult(told) => (
                told.issue_number,
                Some(told.epoch),
                State::Ended(answer.clone()),
            ),
            Inbound::WorkerError(told) => {
                (told.error.issue_number, None, State::Ended(answer.clone()))
            }
            _ => return,
        };
        let last = self.known.iter_mut().rev().find(|known| {
            known.issue_number == issue_number && epoch.is_none_or(|epoch| known.epoch == epoch)
        });
        if let Some(known) = last {
            known.state = state;
        }
    }

    /// Whether the worker has to hear that it lost the task: not if it is through with it or heard it before.
    pub fn revoke(&mut self, told: &TaskRevoked) -> bool {
        let same = |known: &&mut Assignment| {
            (known.issue_number, known.epoch) == (told.issue_number, told.epoch)
        };
        let Some(known) = self.known.iter_mut().find(same) else {
            return true;
        };
        let holds = matches!(known.state, State::Unanswered | State::Accepted(_));
        known.state = State::Revoked;
        holds
    }
}

/// The ids of the last messages.
#[derive(Debug, Default)]
pub(super) struct Mail {
    known: VecDeque<Letter>,
}

#[derive(Debug)]
struct Letter {
    message_id: String,
    acknowledged: Option<Inbound<'static>>,
}

impl Mail {
    pub fn arrive(&mut self, message_id: &str) -> Arrival {
        let known = self
            .known
            .iter()
            .find(|known| known.message_id == message_id);
        if let Some(known) = known {
            return Arrival::Again(known.acknowledged.clone().map(Box::new));
        }
        if self.known.len() >= MESSAGES_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Letter {
            message_id: message_id.to_owned(),
            acknowledged: None,
        });
        Arrival::New
    }

    /// Notes that the worker has a message.
    pub fn answered(&mut self, answer: &Inbound<'static>) {
        let Inbound::AgentMessageAck(ack) = answer else {
            return;
        };
        let known = self.known.iter_mut();
        for letter in known.filter(|known| known.message_id == ack.message_id) {
            letter.acknowledged = Some(answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::message::{AgentMessageAck, TaskAccepted, TaskDeclined};

    use super::*;

    fn task(issue_number: u64, epoch: u64) -> TaskAssigned {
        TaskAssigned {
            issue_number,
            redacted: 0,
            task_id: format!("t{issue_number}"),
            epoch,
            attempt: 1,
            title: String::new(),
            description: String::new(),
            files: Vec::new(),
            branch: None,
            deadline: None,
            corr_id: None,
            resumed: false,
            part: 0,
            parts: 1,
        }
    }

    fn revoked(issue_number: u64, epoch: u64) -> TaskRevoked {
        TaskRevoked {
            issue_number,
            epoch,
            reason: "canceled".to_owned(),
            corr_id: None,
        }
    }

    fn accepted(issue_number: u64, epoch: u64) -> Inbound<'static> {
        let accepted = TaskAccepted {
            issue_number,
            epoch,
            corr_id: None,
        };
        accepted.into()
    }

    fn declined(issue_number: u64, epoch: u64) -> Inbound<'static> {
        let declined = TaskDeclined {
            issue_number,
            epoch,
            reason: "busy".to_owned(),
            corr_id: None,
        };
        declined.into()
    }

    #[test]
    fn an_assignment_is_new_once_per_epoch_and_answered_alike() {
        let mut known = Assignments::default();
        assert_eq!(known.arrive(&task(7, 1)), Arrival::New);
        assert_eq!(known.arrive(&task(7, 1)), Arrival::Again(None));
        known.answered(&accepted(7, 1));
        assert_eq!(
            known.arrive(&task(7, 1)),
            Arrival::Again(Some(accepted(7, 1).into()))
        );
        assert_eq!(known.arrive(&task(7, 3)), Arrival::New, "a new epoch");
        assert_eq!(known.arrive(&task(7, 2)), Arrival::Again(None), "too late");
        known.answered(&declined(7, 3));
        assert_eq!(
            known.arrive(&task(7, 3)),
            Arrival::Again(Some(declined(7, 3).into()))
        );
    }

    #[test]
    fn a_task_is_lost_once_and_only_by_its_holder() {
        let mut known = Assignments::default();
        known.arrive(&task(7, 1));
        known.answered(&accepted(7, 1));
        assert!(known.revoke(&revoked(7, 1)));
        assert!(!known.revoke(&revoked(7, 1)));
        known.arrive(&task(8, 1));
        known.answered(&declined(8, 1));
        assert!(!known.revoke(&revoked(8, 1)), "it was through with it");
        assert!(known.revoke(&revoked(9, 1)), "from before a restart");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = Assignments::default();
        for issue in 0..=ASSIGNMENTS_MAX as u64 {
            known.arrive(&task(issue, 1));
        }
        assert_eq!(known.known.len(), ASSIGNMENTS_MAX);
        let mut mail = Mail::default();
        for number in 0..=MESSAGES_MAX {
            mail.arrive(&format!("m{number}"));
        }
        assert_eq!(mail.known.len(), MESSAGES_MAX);
        assert_eq!(mail.arrive("m1"), Arrival::Again(None));
        assert_eq!(mail.arrive("m0"), Arrival::New, "forgotten");
    }

    #[test]
    fn a_message_is_read_once_and_acknowledged_as_often_as_it_comes() {
        let mut mail = Mail::default();
        assert_eq!(mail.arrive("m1"), Arrival::New);
        assert_eq!(mail.arrive("m1"), Arrival::Again(None));
        let ack: Inbound<'static> = AgentMessageAck {
            message_id: "m1".to_owned(),
            state: None,
            reason: None,
            by: None,
            corr_id: None,
        }
        .into();
        mail.answered(&ack);
        assert_eq!(mail.arrive("m1"), Arrival::Again(Some(ack.into())));
    }
}
