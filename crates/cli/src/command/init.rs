//! `switchboard init`: writes a commented `switchboard.toml`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use clap::Args as ClapArgs;
use switchboard_hub::config::{CONFIG_FILE, Config};

use crate::context::Context;
use crate::failure::Failure;
use crate::project;

/// Write a commented switchboard.toml for this project
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The file lists every setting with its default; uncomment a line to change it. The file is optional.

Examples:
  switchboard init
  switchboard init --project ../other --force")]
pub struct Args {
    /// Project directory [default: the enclosing git repository's main worktree, else the current directory]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let file = args
        .project
        .unwrap_or_else(|| project::around(&context.here))
        .join(CONFIG_FILE);
    let shown = file.display();
    let mut options = OpenOptions::new();
    if args.force {
        options.write(true).create(true).truncate(true);
    } else {
        options.write(true).create_new(true);
    }
    let written = options
        .open(&file)
        .and_then(|mut opened| opened.write_all(Config::commented_default().as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::Failed(format!(
                "{shown} exists; edit it, or replace it with --force"
            )));
        }
        Err(error) => {
            return Err(Failure::Failed(format!(
                "{shown} cannot be written: {error}"
            )));
        }
    }
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&serde_json::json!({ "success": true, "file": file }))?);
    }
    Ok(screen.line(format_args!(
        "wrote {shown}; uncomment what you want to change, then start the hub with 'switchboard up'"
    ))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Options;
    use crate::screen::Screen;

    #[test]
    fn an_existing_file_is_kept_unless_forced() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            json: true,
            ..Options::default()
        };
        let mut context = Context {
            options,
            screen: Screen::new(true),
            here: dir.path().to_owned(),
        };
        let mut init = |force| {
            run(
                Args {
                    project: Some(dir.path().to_owned()),
                    force,
                },
                &mut context,
            )
        };
        init(false).unwrap();
        let file = dir.path().join(CONFIG_FILE);
        std::fs::write(&file, "# mine").unwrap();
        assert_eq!(init(false).unwrap_err().exit_code(), 1);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "# mine");
        init(true).unwrap();
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            Config::commented_default()
        );
    }
}
