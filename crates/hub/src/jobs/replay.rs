//! A job's history, judged and worked out anew: each response by the rules of a response, each step by the table.

use switchboard_core::JobId;
use switchboard_core::job::JobAction;
use switchboard_core::job::step::Act;
use switchboard_core::job_history::{Exchange, Interaction, RunStatus};
use switchboard_core::query::Readable;
use switchboard_core::record::{Place, RecordRange};
use switchboard_store::Error as StoreError;
use switchboard_wire::logist::response::{Terms, judge};

use super::pack::Packer;

/// Interactions that are read at a time.
const READ_AT_ONCE: usize = 64;

/// One interaction, and how it differs from what follows anew, if it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    pub sequence: u64,
    pub differs: Option<String>,
}

/// Goes through a job's interactions, up to this one if one is named.
pub fn replay(
    ledger: &dyn Readable<Error = StoreError>,
    job: &JobId,
    until: Option<u64>,
) -> Result<Vec<Replayed>, StoreError> {
    let mut replayed: Vec<Replayed> = Vec::new();
    loop {
        let after = replayed.last().map_or(0, |last| last.sequence);
        let range = RecordRange {
            after: i64::try_from(after).ok().map(|position| Place {
                position,
                key: "\u{10FFFF}".into(),
            }),
            ..Interaction::of_job(job, READ_AT_ONCE)
        };
        let rows: Vec<Interaction> = ledger.privates(&range)?;
        for (expected, row) in (after + 1..).zip(&rows) {
            if until.is_some_and(|until| row.sequence > until) {
                return Ok(replayed);
            }
            let key = Interaction::key_of(job, row.sequence);
            let exchange = ledger.private::<Exchange>(key)?;
            let raw = exchange.and_then(|exchange| Packer::shown(&exchange.raw, job).ok());
            let differs = match row.sequence == expected {
                true => anew(row, raw.as_deref()).err(),
                false => Some(format!("interaction {expected} is missing")),
            };
            replayed.push(Replayed {
                sequence: row.sequence,
                differs,
            });
        }
        if rows.len() < READ_AT_ONCE {
            return Ok(replayed);
        }
    }
}

fn anew(row: &Interaction, raw: Option<&str>) -> Result<(), String> {
    if row.status == RunStatus::Success && !row.raw.truncated {
        response(row, raw.ok_or("its response cannot be read")?)?;
    }
    let act = match (row.call_error, row.action) {
        (Some(_), JobAction::Retry) => Act::CallAgain,
        (_, action) => Act::from(action),
    };
    let landed = row.setting.replayed(row.state_before, row.role, act);
    match landed {
        Some(landed) if landed.state == row.new_status => Ok(()),
        Some(landed) => Err(format!(
            "{} of the {} in {} leads to {}, and {} is on record",
            row.action, row.role, row.state_before, landed.state, row.new_status
        )),
        None => Err(format!(
            "{} of the {} is not possible in {}",
            row.action, row.role, row.state_before
        )),
    }
}

fn response(row: &Interaction, raw: &str) -> Result<(), String> {
    let judged = judge(raw, &Terms::default());
    if let Some(error) = judged.error() {
        return Err(format!("its response is not valid: {error}"));
    }
    match judged.action == row.action {
        true => Ok(()),
        false => Err(format!(
            "its response says {}, and {} is on record",
            judged.action, row.action
        )),
    }
}
