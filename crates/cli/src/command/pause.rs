//! `switchboard pause`: no new work for anybody.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{PauseRequest, Paused};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Stop handing out work, on all protocols; running tasks continue
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The pause survives restarts. It ends with 'switchboard resume', or after --for.

Examples:
  switchboard pause --why 'the main branch is broken'
  switchboard pause --for 10m")]
pub struct Args {
    /// Reason, shown to agents that ask for work
    #[arg(long, short, value_name = "TEXT", alias = "reason")]
    why: Option<String>,
    /// End the pause automatically after 30s, 10m, 2h, 1d
    #[arg(long = "for", value_name = "SPAN", value_parser = seconds)]
    lasts: Option<u64>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = PauseRequest {
        why: args.why,
        until: None,
        for_seconds: args.lasts,
    };
    let answer = context.client()?.admin().pause(&request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let held = answer.paused.as_ref().map(words).unwrap_or_default();
    Ok(screen.line(format_args!(
        "no new work is handed out: {held}; 'switchboard resume' ends it"
    ))?)
}

/// Who paused, why and until when, in one line.
pub fn words(paused: &Paused) -> String {
    let why = match paused.why.trim() {
        "" => String::new(),
        why => format!(", {}", clean(why)),
    };
    let until = match paused.until {
        Some(until) => format!(" until {until}"),
        None => String::new(),
    };
    format!("paused by {}{until}{why}", clean(&paused.by))
}

/// A whole number and its unit.
pub fn seconds(text: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err("expected a number and s, m, h or d, such as 10m".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "expected a number and s, m, h or d, such as 10m".to_owned())?;
    number
        .checked_mul(factor)
        .ok_or_else(|| "too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        for (text, expected) in [
            ("30s", Some(30)),
            ("10m", Some(600)),
            ("2h", Some(7200)),
            ("1d", Some(86_400)),
            ("10", None),
            ("m", None),
            ("-1s", None),
            ("1.5h", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
