//! What `--help` says, made to fit: text is wrapped by the terminal's width, and a command lists only options that mean
//! something to it.

use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::Cli;

/// The command line, with its help.
pub fn command() -> Command {
    let mut command = unfolded(Cli::command());
    // From here on every command has the options that all share.
    command.build();
    // It talks to no hub: it is one. Of what all share, only its data directory matters to it.
    command.mut_subcommand("up", |up| {
        up.mut_args(
            |arg| match arg.is_global_set() && arg.get_id() != "data_dir" {
                true => arg.hide(true),
                false => arg,
            },
        )
    })
}

/// Says what is wrong with a command line, or what was asked about it.
pub fn refuse(error: &clap::Error) -> ExitCode {
    let text = in_words(&error.render().ansi().to_string());
    match error.use_stderr() {
        true => anstream::eprint!("{text}"),
        false => anstream::print!("{text}"),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// What the parsers of numbers say, as a person says it.
fn in_words(text: &str) -> String {
    text.replace("invalid digit found in string", "expected a whole number")
        .replace(
            "cannot parse integer from empty string",
            "expected a whole number",
        )
        .replace(" is not in ", " is not from ")
        .replace("..=", " to ")
        .replace("number too large to fit in target type", "too large")
        .replace("number too small to fit in target type", "too small")
}

fn unfolded(mut command: Command) -> Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(unfold(&text));
    }
    command.mut_subcommands(unfolded)
}

/// Joins the lines of a sentence, which are as long as suits the source.
fn unfold(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for line in text.lines() {
        let goes_on = |last: &&mut String| is_prose(last) && !last.ends_with(['.', ':', ';']);
        match out.last_mut().filter(goes_on) {
            Some(last) if is_prose(line) => {
                last.push(' ');
                last.push_str(line);
            }
            _ => out.push(line.to_owned()),
        }
    }
    out.join("\n")
}

/// Examples and tables are indented.
fn is_prose(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of every command at a width, by its path.
    fn each(command: &Command, path: &str, width: usize, check: &impl Fn(&str, &str)) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            let mut shown = inner.clone().term_width(width);
            check(&path, &shown.render_long_help().to_string());
            each(inner, &path, width, check);
        }
    }

    #[test]
    fn help_fills_its_lines_whatever_the_width() {
        for width in [60, 80, 100, 140] {
            each(&command(), "switchboard", width, &|path, help| {
                let lines: Vec<&str> = help.lines().collect();
                for pair in lines.windows(2) {
                    let [line, next] = pair else { continue };
                    let word = next.split(' ').next().unwrap_or_default();
                    let had_room = line.chars().count() + 1 + word.chars().count() <= width;
                    let goes_on = is_prose(line) && !line.ends_with(['.', ':', ';']);
                    assert!(
                        !(goes_on && is_prose(next) && had_room),
                        "{path} at {width}: {line:?} could have held {word:?}"
                    );
                }
            });
        }
    }

    #[test]
    fn up_lists_no_option_of_those_who_call_a_hub() {
        each(&command(), "switchboard", 100, &|path, help| {
            let is_up = path == "switchboard up";
            let calls_a_hub = !is_up && !path.contains(" help");
            assert_eq!(help.contains("--token"), calls_a_hub, "{path}");
            assert!(!is_up || !help.contains("--url"));
        });
    }

    #[test]
    fn a_wrong_number_is_told_in_plain_words() {
        for (line, told) in [
            ("task add t --max-retries x", "expected a whole number"),
            ("task add t --max-retries 99999999999", "is not from 0 to "),
            ("task list --limit 0", "0 is not from 1 to "),
        ] {
            let words = std::iter::once("switchboard").chain(line.split(' '));
            let error = command().try_get_matches_from(words).unwrap_err();
            let said = in_words(&error.render().to_string());
            assert!(said.contains(told), "{said}");
            let of_rust = ["digit", "target type", ".."];
            assert!(!of_rust.iter().any(|word| said.contains(word)), "{said}");
        }
    }

    #[test]
    fn lines_of_one_sentence_are_joined_and_others_stay() {
        let text =
            "One sentence that\ngoes on. Another,\nand its end.\nThird.\n\nExamples:\n  a\n  b";
        let joined =
            "One sentence that goes on. Another, and its end.\nThird.\n\nExamples:\n  a\n  b";
        assert_eq!(unfold(text), joined);
    }
}
