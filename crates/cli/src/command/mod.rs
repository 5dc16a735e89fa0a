//! The commands: this table, and one file each.

pub mod agent;
pub mod audit;
pub mod backup;
pub mod bg;
pub mod bus;
pub mod capability;
pub mod cert;
pub mod claim;
pub mod completions;
pub mod conformance;
pub mod demo;
pub mod doctor;
pub mod escalate;
pub mod events;
pub mod gate;
pub mod inbox;
pub mod incident;
pub mod init;
pub mod job;
pub mod journal;
pub mod key;
pub mod lease;
pub mod memory;
pub mod message;
pub mod migrate;
pub mod mock_agent;
pub mod node;
pub mod pause;
pub mod quality;
pub mod restore;
pub mod resume;
pub mod review;
pub mod role;
pub mod roll_call;
pub mod say;
pub mod schema;
pub mod status;
pub mod task;
pub mod token;
pub mod up;
pub mod worker;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Up(Box<up::Args>),
    MockAgent(mock_agent::Args),
    #[command(flatten)]
    Errand(Errand),
}

/// Everything but running a hub or being an agent: it does one thing and ends.
#[derive(Debug, Subcommand)]
pub enum Errand {
    Demo(demo::Args),
    Init(init::Args),
    Status(status::Args),
    /// Add, list and control tasks
    #[command(subcommand, visible_alias = "tasks", after_help = task::EXAMPLES)]
    Task(task::Command),
    /// Run jobs: phases that a worker does, a supervisor judges and a person decides on
    #[command(subcommand, visible_alias = "jobs", after_help = job::EXAMPLES)]
    Job(job::Command),
    /// Add, list and stop agents
    #[command(subcommand, visible_alias = "agents", after_help = agent::EXAMPLES)]
    Agent(agent::Command),
    /// Create and revoke tokens for people and programs
    #[command(subcommand, visible_alias = "tokens", after_help = token::EXAMPLES)]
    Token(token::Command),
    /// Replace the master key
    #[command(subcommand, after_help = key::EXAMPLES)]
    Key(key::Command),
    /// Watch and control the bus, or run a worker on it
    #[command(subcommand, after_help = bus::EXAMPLES)]
    Bus(bus::Command),
    /// Create, rotate and revoke certificates for the bus
    #[command(subcommand, visible_alias = "certs", after_help = cert::EXAMPLES)]
    Cert(cert::Command),
    /// Send and list messages
    #[command(subcommand, visible_alias = "messages", after_help = message::EXAMPLES)]
    Message(message::Command),
    /// List and release file leases
    #[command(subcommand, visible_alias = "leases", after_help = lease::EXAMPLES)]
    Lease(lease::Command),
    /// Join other hubs, list and leave them
    #[command(subcommand, visible_alias = "nodes", after_help = node::EXAMPLES)]
    Node(node::Command),
    /// Check whether an implementation does what its protocol demands
    #[command(subcommand, after_help = conformance::EXAMPLES)]
    Conformance(conformance::Command),
    /// Publish, list and take back capabilities
    #[command(subcommand, visible_alias = "capabilities", after_help = capability::EXAMPLES)]
    Capability(capability::Command),
    /// List and resolve reviews of capabilities whose tasks went wrong
    #[command(subcommand, visible_alias = "reviews", after_help = review::EXAMPLES)]
    Review(review::Command),
    Worker(Box<worker::Args>),
    Say(say::Args),
    /// Start, list and end builder's background agents
    #[command(subcommand, after_help = bg::EXAMPLES)]
    Bg(bg::Command),
    /// Run a role's program, list the roles that messages are sent to
    #[command(subcommand, visible_alias = "roles", after_help = role::EXAMPLES)]
    Role(role::Command),
    RollCall(roll_call::Args),
    Inbox(inbox::Args),
    /// List what roles claimed, and say whether it holds
    #[command(subcommand, visible_alias = "claims", after_help = claim::EXAMPLES)]
    Claim(claim::Command),
    Escalate(escalate::Args),
    Journal(journal::Args),
    /// Sign off a change before a restart, step by step
    #[command(subcommand, after_help = gate::EXAMPLES)]
    Gate(gate::Command),
    Briefing(journal::Briefing),
    Events(events::Args),
    Audit(audit::Args),
    /// List and resolve incidents: problems that a person should look into
    #[command(subcommand, visible_alias = "incidents", after_help = incident::EXAMPLES)]
    Incident(incident::Command),
    /// Show and set the quality baseline, show measurements
    #[command(subcommand, after_help = quality::EXAMPLES)]
    Quality(quality::Command),
    /// Show the schemas of jobs, check and migrate files by them
    #[command(subcommand, after_help = schema::EXAMPLES)]
    Schema(schema::Command),
    /// Search what agents learned and claimed
    #[command(subcommand, after_help = memory::EXAMPLES)]
    Memory(memory::Command),
    Pause(pause::Args),
    Resume(resume::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Migrate(migrate::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

impl Errand {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Errand::Demo(args) => demo::run(args, context).await,
            Errand::Init(args) => init::run(args, context),
            Errand::Status(args) => status::run(args, context).await,
            Errand::Task(command) => command.run(context).await,
            Errand::Job(command) => command.run(context).await,
            Errand::Agent(command) => command.run(context).await,
            Errand::Token(command) => command.run(context).await,
            Errand::Key(command) => command.run(context).await,
            Errand::Cert(command) => command.run(context),
            Errand::Bus(command) => command.run(context).await,
            Errand::Message(command) => command.run(context).await,
            Errand::Lease(command) => command.run(context).await,
            Errand::Node(command) => command.run(context).await,
            Errand::Conformance(command) => command.run(context).await,
            Errand::Capability(command) => command.run(context).await,
            Errand::Review(command) => command.run(context).await,
            Errand::Gate(command) => command.run(context).await,
            Errand::Claim(command) => command.run(context).await,
            Errand::Escalate(args) => escalate::run(args, context).await,
            Errand::Journal(args) => journal::run(args, context),
            Errand::Briefing(args) => journal::briefing(args, context),
            Errand::RollCall(args) => roll_call::run(args, context).await,
            Errand::Inbox(args) => inbox::run(args, context).await,
            Errand::Bg(command) => command.run(context).await,
            Errand::Role(command) => command.run(context).await,
            Errand::Worker(args) => worker::run(*args, context).await,
            Errand::Say(args) => say::run(args, context).await,
            Errand::Events(args) => events::run(args, context).await,
            Errand::Audit(args) => audit::run(args, context).await,
            Errand::Incident(command) => command.run(context).await,
            Errand::Quality(command) => command.run(context).await,
            Errand::Schema(command) => command.run(context),
            Errand::Memory(command) => command.run(context).await,
            Errand::Pause(args) => pause::run(args, context).await,
            Errand::Resume(args) => resume::run(args, context).await,
            Errand::Backup(args) => backup::run(args, context),
            Errand::Restore(args) => restore::run(args, context),
            Errand::Migrate(args) => migrate::run(args, context).await,
            Errand::Doctor(args) => doctor::run(args, context).await,
            Errand::Completions(args) => completions::run(&args, context),
        }
    }
}
