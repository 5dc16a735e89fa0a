//! `switchboard task edit`: changes what tasks say.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{PatchTaskRequest, Priority, TaskType};

use super::add::description;
use super::each;
use crate::context::Context;
use crate::failure::Failure;
use crate::import::minutes;
use crate::words::one_of;

/// Change tasks: what is not given stays, and an empty value clears
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
While an agent holds a task, only its title, description, files, branch and
retries can be changed.

Examples:
  switchboard task edit 12 --priority high
  switchboard task edit 12 13 --skill rust --skill sql
  switchboard task edit 12 --title 'Fix the lexer' --estimate ''")]
pub struct Args {
    /// Ids or numbers
    #[arg(required = true)]
    tasks: Vec<String>,
    /// What to do, in one line
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Details; '-' reads them from stdin
    #[arg(long, short, value_name = "TEXT")]
    description: Option<String>,
    /// Priority
    #[arg(long, short, value_parser = one_of::<Priority>(Priority::WORDS))]
    priority: Option<Priority>,
    /// The kind of work
    #[arg(long = "type", short = 't', value_name = "TYPE", value_parser = one_of::<TaskType>(TaskType::WORDS))]
    kind: Option<TaskType>,
    /// The skills the agent must have, instead of those before; may be repeated
    #[arg(long = "skill", short, value_name = "SKILL", value_delimiter = ',')]
    skills: Option<Vec<String>>,
    /// The files it will change, instead of those before; may be repeated
    #[arg(long = "file", short, value_name = "PATH")]
    files: Option<Vec<String>>,
    /// Estimated duration: 30m, 2h, 1h30m or minutes
    #[arg(long, short, value_name = "TIME")]
    estimate: Option<String>,
    /// Maximum number of retries after a failure
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// The branch to work on
    #[arg(long, short, value_name = "BRANCH")]
    branch: Option<String>,
    /// The agents that may claim it, instead of those before; may be repeated
    #[arg(long = "for", value_name = "AGENT", value_delimiter = ',')]
    audience: Option<Vec<String>>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let tasks = args.tasks.clone();
    let patch = patch(args)?;
    if patch == PatchTaskRequest::default() {
        let text = "nothing to change was given; see 'switchboard task edit --help'";
        return Err(Failure::Usage(text.to_owned()));
    }
    let client = context.client()?;
    each(&tasks, &mut context.screen, async |task| {
        client.tasks().patch(task, &patch).await
    })
    .await
}

fn patch(args: Args) -> Result<PatchTaskRequest, Failure> {
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let list = |items: Vec<String>| items.into_iter().filter_map(text).collect();
    let estimate = args.estimate.map(|given| match text(given) {
        Some(given) => minutes(&given).map(Some),
        None => Ok(None),
    });
    Ok(PatchTaskRequest {
        title: args.title,
        description: args.description.map(description).transpose()?.map(text),
        priority: args.priority,
        kind: args.kind,
        required_skills: args.skills.map(list),
        estimated_minutes: estimate
            .transpose()
            .map_err(|error| Failure::Usage(format!("--estimate: {error}")))?,
        files: args.files.map(list),
        branch: args.branch.map(text),
        max_retries: args.max_retries,
        audience: args.audience.map(list),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Edit {
        #[command(flatten)]
        args: Args,
    }

    fn given(options: &[&str]) -> Result<PatchTaskRequest, Failure> {
        let words = ["edit", "12"].iter().chain(options);
        patch(Edit::parse_from(words).args)
    }

    #[test]
    fn what_is_not_given_stays_and_an_empty_value_clears() {
        assert_eq!(given(&[]).unwrap(), PatchTaskRequest::default());
        let some = given(&["--skill", "rust,sql", "--estimate", "1h", "--branch", "b"]).unwrap();
        assert_eq!(
            some.required_skills,
            Some(vec!["rust".to_owned(), "sql".to_owned()])
        );
        assert_eq!(some.estimated_minutes, Some(Some(60)));
        assert_eq!(some.branch, Some(Some("b".to_owned())));
        assert_eq!(some.title, None);
        let none = given(&["--skill", "", "--estimate", "", "-d", "", "--for", ""]).unwrap();
        assert_eq!(none.required_skills, Some(Vec::new()));
        assert_eq!(none.audience, Some(Vec::new()));
        assert_eq!(none.estimated_minutes, Some(None));
        assert_eq!(none.description, Some(None));
        assert_eq!(given(&["--estimate", "soon"]).unwrap_err().exit_code(), 2);
    }
}
