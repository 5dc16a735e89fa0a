//! What a person sees of the demo: the table while it runs, and what it comes to.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use switchboard_client::Client;
use switchboard_client::jetpack::{ListOrder, Task, TaskPage, TaskQuery, TaskStatus};

use super::cast::{Cast, Door};
use super::role;
use super::steward::Books;
use crate::failure::Failure;
use crate::page;
use crate::screen::{Screen, Table, Tone, cell, clean, paint, toned};

/// The demo while it runs.
pub fn look(
    screen: &mut Screen,
    books: &mut Books,
    cast: &Cast,
    is_live: bool,
) -> Result<(), Failure> {
    if is_live {
        screen.clear()?;
        picture(screen, books, cast)?;
    } else {
        let untold = books.story.iter().rev().take(books.untold).rev();
        for (at, tone, text) in untold {
            screen.line(line(*at, *tone, text))?;
        }
    }
    books.untold = 0;
    Ok(screen.flush()?)
}

fn picture(screen: &mut Screen, books: &Books, cast: &Cast) -> Result<(), Failure> {
    let done = books.log.completed.len();
    screen.line(format_args!(
        "{}  {done} of {} tasks done\n",
        seconds(books.began.elapsed()),
        books.expected
    ))?;
    let mut table = Table::new(["AGENT", "BY", "AT", "DONE"], "no agents yet");
    for (agent, row) in &books.agents {
        let at = match row.at {
            _ if row.is_silent => toned("silent", Tone::Bad),
            Some(number) => toned(format_args!("#{number}"), Tone::Busy),
            None => toned("idle", Tone::Dim),
        };
        table.row([
            cell(agent),
            toned(by(agent, cast), Tone::Dim),
            at,
            cell(row.done),
        ]);
    }
    screen.table(&table)?;
    screen.line("")?;
    for (at, tone, text) in &books.story {
        screen.line(line(*at, *tone, text))?;
    }
    Ok(())
}

fn by(agent: &str, cast: &Cast) -> &'static str {
    let lead = (agent == role::LEAD).then_some(&Door::Role);
    let door = cast.get(agent).or(lead);
    door.map_or("a real worker", |door| door.name())
}

fn line(at: Duration, tone: Tone, text: &str) -> String {
    format!("{:>7}  {}", seconds(at), paint(clean(text), tone))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// What the demo came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether every figure of the demo's is the hub's.
    pub success: bool,
    pub tasks: usize,
    pub agents: Vec<Share>,
    /// Since the start of the command.
    pub first_done_ms: u128,
    pub end_ms: u128,
    pub silent: u64,
    pub refused_edits: u64,
    pub figures: Vec<Figure>,
    /// Where everything was kept, if it was to be.
    pub dir: Option<String>,
}

/// What one agent did.
#[derive(Debug, Serialize)]
pub struct Share {
    pub agent: String,
    pub by: &'static str,
    pub done: u64,
}

/// One figure, as the demo counted it and as the hub says.
#[derive(Debug, Serialize)]
pub struct Figure {
    pub what: &'static str,
    pub demo: u64,
    pub hub: u64,
}

impl Summary {
    /// Asks the hub for its figures, and puts them beside the demo's.
    pub async fn draw(
        books: &Books,
        end: Duration,
        cast: &Cast,
        client: &Client,
    ) -> Result<Summary, Failure> {
        let status = client.admin().status().await?.tasks;
        let tasks = page::gather(u32::MAX, async |after, limit| {
            let query = TaskQuery {
                order: Some(ListOrder::Old),
                limit: Some(limit),
                after,
                ..TaskQuery::default()
            };
            client.tasks().list(&query).await
        });
        let TaskPage { tasks, .. } = tasks.await?;
        let (ours, log) = (&books.ours, &books.log);
        let agree =
            |task: &&Task| task.status == TaskStatus::Completed && ours.done.contains(&task.number);
        let both = tasks.iter().filter(agree).count() as u64;
        let done = ours.done.len() as u64;
        let ended = done - ours.approved + ours.failed + ours.judged;
        let figure = |what, demo, hub| Figure { what, demo, hub };
        let figures = vec![
            figure("tasks", books.expected as u64, status.total),
            figure("done", done, status.completed),
            figure("done, one by one", done, both),
            figure("failed and tried again", ours.failed, log.retried),
            figure("sent to review", ours.judged, log.judged),
            figure(
                "attempts but for lost ones",
                ended,
                log.claimed - log.requeued,
            ),
            figure(
                "messages sent and acknowledged",
                ours.sent,
                log.acknowledged,
            ),
        ];
        let shares = books.agents.iter().map(|(agent, row)| Share {
            agent: agent.clone(),
            by: by(agent, cast),
            done: row.done,
        });
        Ok(Summary {
            success: figures.iter().all(|figure| figure.demo == figure.hub),
            tasks: books.expected,
            agents: shares.collect(),
            first_done_ms: books.first_done.unwrap_or(end).as_millis(),
            end_ms: end.as_millis(),
            silent: log.silent,
            refused_edits: ours.refused,
            figures,
            dir: None,
        })
    }

    pub fn print(&self, screen: &mut Screen, project: &Path) -> Result<(), Failure> {
        if screen.json() {
            return Ok(screen.value(self)?);
        }
        let time = |ms: u128| format!("{}.{} s", ms / 1000, ms % 1000 / 100);
        screen.line(format_args!(
            "\n{} agents did {} tasks in {}; the first was done after {}.",
            self.agents.iter().filter(|share| share.done > 0).count(),
            self.tasks,
            time(self.end_ms),
            time(self.first_done_ms)
        ))?;
        screen.line(format_args!(
            "{} agent fell silent and lost its task; {} edit was refused because of a lease.\n",
            self.silent, self.refused_edits
        ))?;
        let mut table = Table::new(["COUNTED", "BY THE AGENTS", "BY THE HUB"], "");
        for figure in &self.figures {
            let tone = if figure.demo == figure.hub {
                Tone::Good
            } else {
                Tone::Bad
            };
            table.row([
                cell(figure.what),
                cell(figure.demo),
                toned(figure.hub, tone),
            ]);
        }
        screen.table(&table)?;
        screen.line("\nTry next:")?;
        if self.dir.is_some() {
            let place = project.display();
            screen.line(format_args!("  cd {place} && switchboard up"))?;
            screen.line(
                "  switchboard task list       # what was done, and by whom; 'events' has it all",
            )?;
        } else {
            screen.line("  switchboard demo --keep     # keep the ledger and the repository, to look around")?;
        }
        screen.line("  switchboard up              # a hub for your own project")?;
        screen.line("  switchboard task add 'Say hello'")?;
        Ok(screen.line(
            "  switchboard worker claude   # in another terminal: an agent, in a git worktree",
        )?)
    }
}
