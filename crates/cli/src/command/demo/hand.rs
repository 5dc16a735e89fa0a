//! Agents that come for their tasks: over HTTP, as files, in the tables.

use std::sync::Arc;
use std::time::Duration;

use switchboard_client::jetpack::{QualityMetrics, TaskStatus};

use super::line::Line;
use super::plan::{Fate, Random};
use super::sql::Tables;
use super::world::{Held, Told, World};
use crate::failure::Failure;

/// Whoever may not edit a file asks again after this.
const ASK_AGAIN: Duration = Duration::from_millis(300);
/// Of so many tasks, one makes its agent write to another.
const WRITES_EVERY: u64 = 3;

/// Registers, and works until it is stopped.
pub async fn by_protocol(
    world: Arc<World>,
    mut line: Line,
    skills: &'static [&'static str],
) -> Result<(), Failure> {
    let mut random = Random::new(world.seed, &line.agent);
    line.register(skills).await?;
    line.publish(&world.published).await?;
    loop {
        for _ in 0..line.mail().await? {
            world.tell(Told::Acknowledged).await;
        }
        if let Some(held) = line.claim().await? {
            task(&world, &mut line, &held, &mut random).await?;
        }
    }
}

async fn task(
    world: &World,
    line: &mut Line,
    held: &Held,
    random: &mut Random,
) -> Result<(), Failure> {
    let number = held.number;
    let fate = world.fate(number);
    if fate == Some(Fate::Contended) {
        edit(world, line, held, random).await?;
    }
    world.work(random).await;
    line.progress(held).await?;
    world.work(random).await;
    if fate == Some(Fate::Fails) {
        line.fail(held).await?;
        world.tell(Told::Failed).await;
        return Ok(());
    }
    let status = line.complete(held, measured(fate)).await?;
    world
        .tell(match status {
            TaskStatus::NeedsReview => Told::Judged,
            _ => Told::Done(number),
        })
        .await;
    if random.below(WRITES_EVERY) == 0
        && let Some(next) = world.next(&line.agent)
    {
        line.send(next, &format!("#{number} is done")).await?;
        world.tell(Told::Sent).await;
    }
    Ok(())
}

/// Edits the files under a lease. Whoever has it keeps it until another was refused.
async fn edit(
    world: &World,
    line: &mut Line,
    held: &Held,
    random: &mut Random,
) -> Result<(), Failure> {
    let mut was_refused = false;
    for path in &held.files {
        while let Some(by) = line.lease(held, path).await? {
            if !was_refused {
                let (agent, path) = (line.agent.clone(), path.clone());
                world.tell(Told::Refused { agent, path, by }).await;
            }
            was_refused = true;
            world.refused.send_replace(true);
            world.rest(ASK_AGAIN).await;
        }
        world.work(random).await;
        world.until_refused().await;
        line.release(path).await?;
    }
    Ok(())
}

/// As the baseline has it, unless the task's fate is another.
fn measured(fate: Option<Fate>) -> Option<QualityMetrics> {
    let fate = fate?;
    Some(QualityMetrics {
        tests_ran: super::steward::TESTS,
        tests_passed: super::steward::TESTS - 2 * u32::from(fate == Fate::Red),
        lint_errors: u32::from(fate == Fate::Arguable),
        type_errors: 0,
        build_success: true,
        lint_warnings: None,
        test_coverage: None,
    })
}

/// The same in the tables.
pub async fn by_tables(
    world: Arc<World>,
    mut tables: Tables,
    skills: &'static [&'static str],
) -> Result<(), Failure> {
    let mut random = Random::new(world.seed, &tables.agent);
    tables.register(skills).await?;
    loop {
        for _ in 0..tables.mail().await? {
            world.tell(Told::Acknowledged).await;
        }
        let Some(held) = tables.claim().await? else {
            continue;
        };
        let number = held.number;
        world.work(&mut random).await;
        world.work(&mut random).await;
        let told = match world.fate(number) {
            Some(Fate::Fails) => tables.fail(&held).await?.then_some(Told::Failed),
            _ => tables.complete(&held).await?.then_some(Told::Done(number)),
        };
        if let Some(told) = told {
            world.tell(told).await;
        }
    }
}
