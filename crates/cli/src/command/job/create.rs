//! `switchboard job create`: a job from a spec, or in a directory of its own.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::CreateJobRequest;
use switchboard_wire::logist::spec::{self, Spec};

use super::changed;
use crate::context::Context;
use crate::failure::Failure;
use crate::{discover, import};

/// Create a job from a spec file, or in a directory that becomes its own
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A spec is JSON, by itself or as the member \"job_spec\":
  {\"job_id\": \"parser\", \"objective\": \"Write a parser for docs/grammar.md\",
   \"phases\": [{\"name\": \"design\", \"description\": \"Write docs/parser.md\"},
              {\"name\": \"build\", \"worker_instructions\": \"Write src/parser.rs with its tests\"}],
   \"cost_threshold\": 1000, \"time_threshold_minutes\": 60, \"max_iterations\": 50}
All members may be left out. cost_threshold is in cents; \"roles\": [\"worker\"] is a job without review, \"approval\": false
one that needs no approval, \"run\": \"queue\" one whose phases are tasks that any agent may claim.

A directory becomes the job's own: its spec is sample-job.json, job.json or job-spec.json in it. Else the job gets a
directory below .switchboard/jobs. Its agents work in a git worktree of the repository around the current directory, on a
branch of its own; without one, in a repository of its own.

A job that is there already is changed. The new job is a draft until 'switchboard job run' or 'switchboard job activate'.

Examples:
  switchboard job create parser.json
  switchboard job create jobs/parser
  jq .spec plan.json | switchboard job create - --id parser")]
pub struct Args {
    /// The spec, '-' reads stdin; or the job's directory
    #[arg(value_name = "FILE|DIR")]
    from: PathBuf,
    /// Id of the job [default: that of the spec, else the directory's name, else a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let from = context.here.join(&args.from);
    let is_own = from.is_dir();
    let mut spec = match is_own {
        true => spec_in(&from)?,
        false => read_spec(&args.from)?,
    };
    let name = || name_of(&from).filter(|_| is_own);
    spec.job_id = args.id.or(spec.job_id).or_else(name);
    // A hub elsewhere has other directories.
    if context.options.url.is_none() {
        let around = || discover::main_worktree(&context.here);
        let named = spec.repository.map(|path| folder_of(&from).join(path));
        let repository = named.or_else(around);
        spec.repository = repository.map(|path| path.display().to_string());
    }
    let request = CreateJobRequest {
        job_spec: spec,
        directory: is_own.then(|| from.display().to_string()),
    };
    let answer = context.client()?.jobs().create(&request).await?;
    changed(&mut context.screen, &answer)?;
    if context.screen.json() {
        return Ok(());
    }
    let directory = crate::screen::clean(&answer.job.directory).into_owned();
    Ok(context
        .screen
        .line(format_args!("its files are in {directory}"))?)
}

/// What a directory says of its job; it may say nothing.
fn spec_in(dir: &Path) -> Result<Spec, Failure> {
    let files = spec::FILES.iter().map(|name| dir.join(name));
    let file = files.into_iter().find(|file| file.is_file());
    file.map_or(Ok(Spec::default()), |file| read_spec(&file))
}

/// A spec as a file has it.
pub fn read_spec(file: &Path) -> Result<Spec, Failure> {
    let name = file.display();
    let text = import::text(file)
        .map_err(|error| Failure::Failed(format!("{name} cannot be read: {error}")))?;
    spec::read(text.as_bytes()).map_err(|why| Failure::Failed(format!("{name} is no spec: {why}")))
}

/// Where relative paths of a spec begin.
fn folder_of(from: &Path) -> &Path {
    match from.is_dir() {
        true => from,
        false => from.parent().unwrap_or(from),
    }
}

/// A directory's name, if it can be a job's id.
fn name_of(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    let name = dir.file_name()?.to_str()?;
    spec::job_id("job_id", name).ok().map(|id| id.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_names_its_job_and_has_its_spec_under_three_names() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("parser-2");
        fs::create_dir(&dir).unwrap();
        assert_eq!(name_of(&dir).as_deref(), Some("parser-2"));
        assert_eq!(name_of(Path::new("/")), None);
        assert_eq!(spec_in(&dir).unwrap(), Spec::default());
        for name in spec::FILES.iter().rev() {
            let text = format!(r#"{{"job_spec":{{"objective":"{name}"}}}}"#);
            fs::write(dir.join(name), text).unwrap();
            assert_eq!(spec_in(&dir).unwrap().objective.as_deref(), Some(*name));
        }
        fs::write(dir.join(spec::FILES[0]), "{").unwrap();
        let why = spec_in(&dir).unwrap_err().to_string();
        assert!(why.contains("sample-job.json is no spec"), "{why}");
    }
}
