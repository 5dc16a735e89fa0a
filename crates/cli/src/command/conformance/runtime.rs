//! `switchboard conformance runtime`: whether a node does what the Runtime protocol demands.

use std::time::Duration;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use switchboard_client::conformance::{self, Report, Settings, Timings, Verdict};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, Tone, cell, clean, toned};

/// Check any node of the Runtime protocol from outside, clause by clause
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Joins the node as several nodes of its own, sends it right and wrong events, reads its outbox, and leaves; at level 3 it is
also an external agent, and a thief of its tokens. Every clause of the level is met, broken (with what was sent, what came
and what was expected), or not checked (with the reason). The exit code is 1 if a clause is broken, or if it is stopped:
then it leaves, too. Use a node where nobody works: its agents get messages, and gaps raise incidents there.

A Switchboard gives its invites and agents to who has a steward's token, or calls from its own machine without
authentication. Elsewhere, pass an invite for each node of the checker (14 from level 2 on; with fewer, less is checked) and
the name of an agent whose events the token may publish. External agents only a steward invites.

Publishing a capability needs a skill that is installed there (see 'runtime.skills_dir'); name it with --skill.

Examples:
  switchboard conformance runtime
  switchboard conformance runtime --level 2 --skill ansible-executor-fs@1.3.0
  switchboard conformance runtime --url https://node.example --token $TOKEN --invite sbi_… --agent architect
  switchboard conformance runtime --gap-timeout 2 --accepted-timeout 1 --json | jq '.clauses[] | select(.verdict != \"met\")'")]
pub struct Args {
    /// 1: events, acks and tasks; 2: gaps, capabilities and reviews too; 3: external agents too
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    level: u8,
    /// An invite of the node; one for each node of the checker [default: asked for]
    #[arg(long, value_name = "INVITE")]
    invite: Vec<String>,
    /// An agent of the node, if agents cannot be registered there
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// A skill that is installed at the node, for capabilities to name
    #[arg(long, value_name = "NAME@VERSION", value_parser = skill)]
    skill: Option<(String, String)>,
    /// Seconds to wait at most; what takes longer is not checked
    #[arg(long, value_name = "SECONDS", default_value_t = 40, value_parser = clap::value_parser!(u64).range(5..=600))]
    patience: u64,
    /// What is done there with a gap at last
    #[arg(long, value_name = "POLICY", default_value = "halt",
        value_parser = PossibleValuesParser::new(["halt", "skip", "tombstone"]), help_heading = "How the node is set up")]
    gap_policy: String,
    /// gapTimeoutSeconds there
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        help_heading = "How the node is set up"
    )]
    gap_timeout: u32,
    /// cursorLeaseSeconds there
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        help_heading = "How the node is set up"
    )]
    cursor_lease: u32,
    /// acceptedAckTimeoutSeconds there
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 20,
        help_heading = "How the node is set up"
    )]
    accepted_timeout: u32,
    /// processedSlaGraceSeconds there
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 120,
        help_heading = "How the node is set up"
    )]
    processed_grace: u32,
}

fn skill(text: &str) -> Result<(String, String), String> {
    match text.split_once('@') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => {
            Ok((name.to_owned(), version.to_owned()))
        }
        _ => Err(
            "expected the name and version of a skill, such as ansible-executor-fs@1.3.0"
                .to_owned(),
        ),
    }
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let settings = Settings {
        level: args.level,
        invites: args.invite,
        agent: args.agent,
        skill: args.skill,
        patience: Duration::from_secs(args.patience),
        timings: Timings {
            gap_timeout: seconds(args.gap_timeout),
            cursor_lease: seconds(args.cursor_lease),
            accepted_timeout: seconds(args.accepted_timeout),
            processed_grace: seconds(args.processed_grace),
        },
        gap_policy: args.gap_policy,
    };
    let stop = async {
        // Without a signal to wait for it goes on to its end.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let report = conformance::run(&client, settings, stop).await;
    let report = report.map_err(Failure::Failed)?;
    let screen = &mut context.screen;
    match screen.json() {
        true => screen.value(&report)?,
        false => print(&report, screen)?,
    }
    let is_broken = |verdict: &Verdict| matches!(verdict, Verdict::Broken { .. });
    let broken = report
        .clauses
        .iter()
        .filter(|one| is_broken(&one.verdict))
        .count();
    match broken {
        0 => Ok(()),
        broken => Err(Failure::Unhealthy(broken)),
    }
}

fn print(report: &Report, screen: &mut Screen) -> std::io::Result<()> {
    let mut table = Table::new(["CLAUSE", "VERDICT", "WHY"], "");
    let (mut met, mut unchecked) = (0, 0);
    for finding in &report.clauses {
        let (word, tone, why) = match &finding.verdict {
            Verdict::Met => {
                met += 1;
                ("met", Tone::Good, "")
            }
            Verdict::NotChecked { why } => {
                unchecked += 1;
                ("not checked", Tone::Dim, why.as_str())
            }
            Verdict::Broken { .. } => ("broken", Tone::Bad, "see below"),
        };
        table.row([
            cell(finding.clause),
            toned(word, tone),
            toned(why, Tone::Dim),
        ]);
    }
    screen.table(&table)?;
    for finding in &report.clauses {
        if let Verdict::Broken {
            sent,
            came,
            expected,
        } = &finding.verdict
        {
            screen.line(format_args!("\n{}", finding.clause))?;
            for (word, text) in [("sent", sent), ("came", came), ("expected", expected)] {
                screen.line(format_args!("  {word:<9} {}", clean(text)))?;
            }
        }
    }
    let broken = report.clauses.len() - met - unchecked;
    screen.line(format_args!(
        "\nnode {}, level {}: {met} met, {broken} broken, {unchecked} not checked",
        clean(&report.node_id),
        report.level
    ))
}
