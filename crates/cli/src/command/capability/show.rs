//! `switchboard capability show`: all that this hub knows of a capability.

use clap::Args as ClapArgs;

use super::gates;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{instant, now};

/// Show a capability and its versions
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard capability show cap.fs.diff-apply")]
pub struct Args {
    /// The capability's id, as 'switchboard capability list' shows it
    #[arg(value_name = "ID")]
    id: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.capabilities().show(&args.id).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    if let Some(known) = &answer.capability {
        let (catalog, index) = (&known.catalog, &known.index);
        let skill = |skill: &switchboard_client::runtime::SkillRefRecord| {
            cell(format!("{} {}", skill.name, skill.version))
        };
        let mut facts = Table::facts();
        facts.fact("capability", cell(&catalog.capability_id));
        facts.fact("name", cell(&catalog.name));
        facts.fact("version", cell(&catalog.version));
        facts.fact(
            "status",
            catalog.status.map(|status| cell(status.to_string())),
        );
        facts.fact("owner", cell(&catalog.owner_agent_id));
        facts.fact("node", catalog.owner_node_id.as_ref().map(cell));
        facts.fact("acting", cell(&known.acting_node_id));
        facts.fact("fallback", cell(known.routing.fallback_node_ids.join(", ")));
        facts.fact("agents", cell(index.eligible_agent_ids.join(", ")));
        facts.fact(
            "policies",
            cell(format!(
                "{} {}",
                index.policy_version, known.routing.policy_version
            )),
        );
        facts.fact("delegation", skill(&catalog.delegation_skill_ref));
        facts.fact("executor", skill(&catalog.executor_skill_ref));
        facts.fact("schema", catalog.contract_schema_ref.as_ref().map(cell));
        facts.fact("eta", cell(format!("{} s", catalog.default_eta_seconds)));
        facts.fact("published", catalog.published_at.map(|at| instant(at, now)));
        screen.table(&facts)?;
    }
    for release in &answer.releases {
        screen.line("")?;
        let mut facts = Table::facts();
        facts.fact("version", cell(&release.version));
        facts.fact("state", cell(&release.state));
        facts.fact("by", cell(&release.by));
        facts.fact("at", instant(release.at, now));
        screen.table(&facts)?;
        screen.table(&gates(&release.gates))?;
    }
    Ok(())
}
