//! Rows of tasks, in the groups of columns that change together.

use switchboard_core::Task;
use switchboard_core::slice::Save;

use crate::columns::{new_task, queue_of_task, words_of_task, work_of_task};
use crate::postgres::by_hand::Hand;
use crate::postgres::rows::{Batch, signed};
use crate::postgres::session::Query;
use crate::table::print::postgres::{insert, update, upsert};
use crate::table::print::statements;
use crate::table::{NEW, QUEUE, TASKS, WORDS, WORK};

statements! {
    INSERT = insert(&TASKS, &[NEW]);
    // Over what a hand made of them.
    TAKE = upsert(&TASKS, "id", &[NEW]);
    UPDATE = update(&TASKS, &[WORK]);
    REQUEUE = update(&TASKS, &[WORK, QUEUE]);
    DESCRIBE = update(&TASKS, &[WORDS]);
}

/// With hand writes to take in, rows are written whole: a hand may have changed any part of them.
pub(super) fn save(save: &Save<'_>, hand: &Hand, queries: &mut Vec<Query>) {
    let (mut new, mut dependencies) = (Batch::default(), Batch::default());
    let (mut changed, mut requeued) = (Batch::default(), Batch::default());
    let mut described = Batch::default();
    for (task, put) in save.puts::<Task>() {
        if put.is_new {
            new_task(task, &mut new);
            new.end();
            for dependency in &task.dependencies {
                dependencies
                    .text(dependency.as_str())
                    .count(task.number)
                    .text(task.id.as_str())
                    .end();
            }
            // Otherwise it was created and taken, or failed, within one batch, or is written over a hand's row.
            if task.epoch == 0 && !task.status().is_final() && !hand.is_noted() {
                continue;
            }
        } else if hand.is_noted() || put.has(Task::DESCRIBED) {
            words_of_task(task, &mut described);
            described.count(task.number).end();
        }
        if put.is_new || hand.is_noted() || put.has(Task::QUEUED) {
            work_of_task(task, &mut requeued);
            queue_of_task(task, &mut requeued);
            requeued.count(task.number).end();
        } else {
            work_of_task(task, &mut changed);
            changed.count(task.number).end();
        }
    }
    let insert = match hand.is_noted() {
        true => &TAKE,
        false => &INSERT,
    };
    for (sql, batch) in [
        (insert, new),
        (&DESCRIBE, described),
        (&REQUEUE, requeued),
        (&UPDATE, changed),
    ] {
        if !batch.is_empty() {
            queries.push(Query::rows(sql.as_str(), batch));
        }
    }
    if !dependencies.is_empty() {
        let sql = "INSERT INTO sb_dep(needs, number, task) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING";
        queries.push(Query::rows(sql, dependencies));
    }
}

pub(super) fn forget(save: &Save<'_>, queries: &mut Vec<Query>) {
    let gone: Vec<&Task> = save.drops::<Task>().filter_map(|(_, task)| task).collect();
    if gone.is_empty() {
        return;
    }
    let numbers = || gone.iter().map(|task| signed(task.number));
    let ids = gone.iter().map(|task| task.id.as_str());
    queries.push(Query::new("DELETE FROM tasks WHERE number = ANY($1)").ints(numbers()));
    queries.push(Query::new("DELETE FROM sb_attempt WHERE number = ANY($1)").ints(numbers()));
    queries.push(Query::new("DELETE FROM sb_dep WHERE needs = ANY($1)").texts(ids));
}
