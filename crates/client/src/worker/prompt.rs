//! What an agent program is told.

use switchboard_wire::jetpack::Task;

use super::gate::Gate;

/// What is said of a red gate is its end.
const RED_CHARS_MAX: usize = 16 * 1024;

/// The task, and how it counts as done.
pub(super) fn task(task: &Task, agent: &str, branch: Option<&str>, gates: &[Gate]) -> String {
    let mut text = format!("# {}\n\n", task.title.trim());
    if let Some(description) = task
        .description
        .as_deref()
        .filter(|text| !text.trim().is_empty())
    {
        text.push_str(&format!("{}\n\n", description.trim()));
    }
    if !task.files.is_empty() {
        text.push_str(&format!(
            "Files that are yours to change: {}\n\n",
            task.files.join(", ")
        ));
    }
    if let Some(error) = &task.last_error {
        text.push_str(&format!("An earlier attempt failed: {error}\n\n"));
    }
    text.push_str(&format!(
        "---\nYou are {agent}, at work on task #{} of a shared list.\n",
        task.number
    ));
    match branch {
        Some(branch) => text.push_str(&format!(
            "The current directory is a git worktree of your own, on branch {branch}. Whatever you leave in it is committed \
             for you; do not push, do not merge, and do not leave the directory.\n"
        )),
        None => text.push_str("Work in the current directory, which others use too.\n"),
    }
    if !gates.is_empty() {
        text.push_str("Before it counts as done, these commands have to succeed:\n");
        for gate in gates {
            text.push_str(&format!("- {}\n", gate.run.join(" ")));
        }
    }
    text.push_str("End with a short summary of what you did.\n");
    text
}

/// What a program that has said "done" is told about a red gate.
pub(super) fn red(what: &str, output: &str) -> String {
    let skipped = output.chars().count().saturating_sub(RED_CHARS_MAX);
    let end: String = output.chars().skip(skipped).collect();
    format!(
        "Your work does not count as done yet: {what} failed. Correct it and end with a short summary.\n\n```\n{}\n```\n",
        end.trim()
    )
}
