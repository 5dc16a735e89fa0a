//! The row of a task, in the groups of columns that change together.

use rusqlite::{Connection, params};
use switchboard_core::Task;

use super::{Result, put, statements};
use crate::columns::{Values, new_task, queue_of_task, words_of_task, work_of_task};
use crate::sqlite::load::signed;
use crate::table::print::sqlite::{insert, update};
use crate::table::{NEW, QUEUE, TASKS, WORDS, WORK};

statements! {
    INSERT = insert(&TASKS, &[NEW]);
    UPDATE = update(&TASKS, &[WORK]);
    REQUEUE = update(&TASKS, &[QUEUE]);
    DESCRIBE = update(&TASKS, &[WORDS]);
}

pub(super) fn insert_task(db: &Connection, task: &Task) -> Result {
    put(db, &INSERT, |row| new_task(task, row))?;
    for dependency in &task.dependencies {
        db.prepare_cached("INSERT OR IGNORE INTO sb_dep(needs, number, task) VALUES (?, ?, ?)")?
            .execute(params![
                dependency.as_str(),
                signed(task.number),
                task.id.as_str()
            ])?;
    }
    Ok(())
}

pub(super) fn update_task(db: &Connection, task: &Task) -> Result {
    put(db, &UPDATE, |row| {
        work_of_task(task, row);
        row.count(task.number);
    })
}

pub(super) fn requeue_task(db: &Connection, task: &Task) -> Result {
    put(db, &REQUEUE, |row| {
        queue_of_task(task, row);
        row.count(task.number);
    })
}

pub(super) fn describe_task(db: &Connection, task: &Task) -> Result {
    put(db, &DESCRIBE, |row| {
        words_of_task(task, row);
        row.count(task.number);
    })
}
