//! Agents: who is there, what they can do, what they hold.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::doors::{Door, Silence, longest};
use crate::event::Event;
use crate::id::{AgentId, CommandId, MessageId, TaskId};
use crate::limits;
use crate::skills::Skills;
use crate::talk::ROLE_SKILL;
use crate::task::Phase;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub id: AgentId,
    pub name: String,
    pub kind: AgentKind,
    pub presence: Presence,
    pub skills: Skills,
    pub capabilities: Capabilities,
    pub machine: Option<Machine>,
    pub registered_at: Timestamp,
    /// The last sign of life in any dialect.
    pub seen_at: Timestamp,
    pub heartbeats: u64,
    pub last_active_at: Timestamp,
    /// Tasks this agent holds, oldest claim first.
    pub holds: Vec<TaskId>,
    pub current: Option<Current>,
    pub completed: u64,
    pub failed: u64,
    pub runtime_ms: u64,
    pub metrics: Option<AgentMetrics>,
    /// Orders that have not taken effect yet.
    pub commands: Vec<Command>,
    /// Signing keys of older generations no longer count.
    pub key_generation: u32,
    /// Messages that wait for this agent.
    pub inbox: u32,
    /// Where it has signed on, in order.
    pub doors: Vec<Door>,
    /// No sign of life for longer than this and it is taken for dead: the longest limit of its doors, if each has one.
    pub silent_after: Option<Duration>,
    pub stream: Stream,
    pub rev: u64,
}

/// What is to be known of an agent's connection, also by the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stream {
    /// The connection that has the agent, or had it last.
    pub name: Option<String>,
    /// What it handed over, must be acknowledged and was not yet: queued again when it ends.
    pub unacknowledged: Vec<MessageId>,
    /// Tasks that were taken back from it, oldest first.
    pub taken_back: Vec<TakenBack>,
    /// How long it said it may be silent, at the door where that is told.
    pub silent_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    pub task: TaskId,
    /// Not pushed to it again before.
    pub until: Timestamp,
}

/// What stays of an agent that was gone for so long that its row was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerAgent {
    pub id: AgentId,
    pub name: String,
    pub completed: u64,
    pub failed: u64,
    pub runtime_ms: u64,
    pub registered_at: Timestamp,
    pub gone_at: Timestamp,
}

/// What an agent says it is working on.
#[derive(Clone, Debug, PartialEq)]
pub struct Current {
    pub task: TaskId,
    pub since: Timestamp,
    pub percent: Option<u8>,
    pub phase: Option<Phase>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub max_task_minutes: u32,
    pub can_run_tests: bool,
    pub can_run_build: bool,
    pub can_access_browser: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub id: String,
    pub hostname: String,
    pub pid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentMetrics {
    pub memory_used_mb: f64,
    pub tasks_completed_session: u64,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Live(Doing),
    /// No sign of life for too long; it may come back.
    Silent {
        since: Timestamp,
    },
    /// Signed off. Its name, counters and messages stay.
    Gone {
        at: Timestamp,
    },
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Doing {
        Idle = "idle",
        Busy = "busy",
        Error = "error",
        Stopping = "shutting_down",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum AgentKind {
        ClaudeCode = "claude-code",
        Codex = "codex",
        Gemini = "gemini",
        Browser = "browser",
        Custom = "custom",
    }
}

/// An order to an agent, repeated in every heartbeat's answer until it took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub id: CommandId,
    pub kind: CommandKind,
    pub at: Timestamp,
    /// A heartbeat's answer carried it at least once.
    pub handed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CommandKind {
    Shutdown { reason: String },
    ReleaseTask { task: TaskId, reason: String },
    Ping,
}

impl Agent {
    pub fn is_live(&self) -> bool {
        matches!(self.presence, Presence::Live(_))
    }

    /// Idle, or at the tasks that it holds.
    pub fn appear(&mut self) {
        self.presence = Presence::Live(if self.holds.is_empty() {
            Doing::Idle
        } else {
            Doing::Busy
        });
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.presence, Presence::Gone { .. })
    }

    /// Whether its messages can be handed to it: it is there, or it is none and has a mailbox.
    pub fn is_reached(&self) -> bool {
        self.is_live() || self.id.is_no_agent()
    }

    /// Whether it may read its messages where they are known by numbers: it is there by such a door, or by none.
    pub fn reads_numbers(&self) -> bool {
        let mut doors = self.doors.iter();
        self.doors.is_empty() || doors.any(|door| door.policy().numbers)
    }

    /// Whether it is a role, or holds one.
    pub fn has_role(&self) -> bool {
        let mut skills = self.skills.iter();
        self.reads_numbers() || skills.any(|skill| skill.starts_with(ROLE_SKILL))
    }

    pub fn is_stopping(&self) -> bool {
        self.commands
            .iter()
            .any(|command| matches!(command.kind, CommandKind::Shutdown { .. }))
    }

    /// Whether it says that it does something else than a task it holds, or nothing.
    pub fn has_left(&self, task: &TaskId) -> bool {
        let is_at_it = |current: &Current| current.task == *task;
        self.presence == Presence::Live(Doing::Idle) || !self.current.as_ref().is_some_and(is_at_it)
    }

    /// Whether it says it has nothing to do, and holds nothing.
    pub fn is_idle(&self) -> bool {
        self.presence == Presence::Live(Doing::Idle) && self.holds.is_empty()
    }

    /// The public word for its state.
    pub fn status(&self) -> &'static str {
        match &self.presence {
            Presence::Live(doing) => doing.as_str(),
            Presence::Silent { .. } | Presence::Gone { .. } => "offline",
        }
    }

    /// The group of columns that [`Agent::is_described_as`] compares.
    pub const DESCRIBED: u8 = 1;

    /// Whether it says the same about itself: what claims, heartbeats and messages do not touch.
    pub fn is_described_as(&self, other: &Agent) -> bool {
        self.name == other.name
            && self.kind == other.kind
            && self.skills == other.skills
            && self.capabilities == other.capabilities
            && self.machine == other.machine
            && self.registered_at == other.registered_at
            && self.key_generation == other.key_generation
            && self.doors == other.doors
            && self.silent_after == other.silent_after
            && match (&self.presence, &other.presence) {
                (Presence::Live(_), Presence::Live(_)) => true,
                (one, other) => one == other,
            }
    }

    /// When it has been silent for too long, if nothing more is heard of it.
    pub fn silent_at(&self) -> Option<Timestamp> {
        self.silent_after.map(|limit| self.seen_at + limit)
    }

    /// Whether it has been silent for too long, if `floor` ended the last outage.
    pub fn is_silent(&self, floor: Timestamp, now: Timestamp) -> bool {
        let limit = self.silent_after;
        limit.is_some_and(|limit| now > self.seen_at.max(floor) + limit)
    }

    /// Signs on at a door; whoever is there by several is alive while the most patient one says so.
    pub fn open_door(&mut self, door: Door, limit: Option<Duration>) {
        let is_only = self.doors.iter().all(|open| *open == door);
        if door.policy().silence == Silence::Told {
            self.stream.silent_after = limit;
        }
        self.silent_after = if is_only {
            limit
        } else {
            longest(self.silent_after, limit)
        };
        if !self.doors.contains(&door) {
            self.doors.push(door);
            self.doors.sort_unstable();
        }
    }

    pub fn close_door(&mut self, door: Door) {
        self.doors.retain(|open| *open != door);
        // Older rows do not say what they were told; the limit that stands is that.
        let told = self.stream.silent_after.or(self.silent_after);
        let limit = |open: &Door| open.policy().silence.limit(told);
        if let Some(left) = self.doors.iter().map(limit).reduce(longest) {
            self.silent_after = left;
        }
    }

    /// Takes note of a claim.
    pub fn hold(&mut self, task: &TaskId, now: Timestamp) {
        if !self.holds.contains(task) {
            self.holds.push(task.clone());
        }
        self.current = Some(Current {
            task: task.clone(),
            since: now,
            percent: None,
            phase: None,
        });
        if let Presence::Live(Doing::Idle | Doing::Error) = self.presence {
            self.presence = Presence::Live(Doing::Busy);
        }
        self.last_active_at = now;
    }

    /// Takes note that a task left this agent's hands, whatever the reason. Orders to do so took effect.
    #[must_use = "each is an event"]
    pub fn let_go(&mut self, task: &TaskId, now: Timestamp) -> Vec<Event> {
        self.holds.retain(|held| held != task);
        let mut obeyed = Vec::new();
        self.commands.retain(|command| {
            let over = matches!(&command.kind, CommandKind::ReleaseTask { task: named, .. } if named == task);
            if over {
                obeyed.push(Event::CommandObeyed {
                    agent: self.id.clone(),
                    command: command.id.clone(),
                });
            }
            !over
        });
        if self
            .current
            .as_ref()
            .is_some_and(|current| &current.task == task)
        {
            // What it goes on with, if it holds more, it will say.
            self.current = None;
        }
        if self.holds.is_empty() && self.presence == Presence::Live(Doing::Busy) {
            self.presence = Presence::Live(Doing::Idle);
        }
        self.last_active_at = now;
        obeyed
    }

    /// A task was taken back from it: others come first for a while.
    pub fn spare(&mut self, task: &TaskId, now: Timestamp) {
        let taken_back = &mut self.stream.taken_back;
        taken_back.retain(|spared| spared.until > now && spared.task != *task);
        if taken_back.len() >= limits::TAKEN_BACK_MAX {
            taken_back.remove(0);
        }
        taken_back.push(TakenBack {
            task: task.clone(),
            until: now + limits::TAKEN_BACK_FOR,
        });
    }

    /// What is not to be pushed to it now, and until when each.
    pub fn spared(&self, now: Timestamp) -> impl Iterator<Item = &TakenBack> {
        let taken_back = self.stream.taken_back.iter();
        taken_back.filter(move |spared| spared.until > now)
    }

    pub fn worked_for(&mut self, span: Duration) {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.runtime_ms = self.runtime_ms.saturating_add(millis);
    }
}

impl Agent {
    /// What shall stay of it, if it is gone.
    pub fn former(&self) -> Option<FormerAgent> {
        let Presence::Gone { at } = self.presence else {
            return None;
        };
        Some(FormerAgent {
            id: self.id.clone(),
            name: self.name.clone(),
            completed: self.completed,
            failed: self.failed,
            runtime_ms: self.runtime_ms,
            registered_at: self.registered_at,
            gone_at: at,
        })
    }

    /// An agent that has no row: its name and counters go on where they ended, if it ever was here.
    pub fn without_row(id: &AgentId, former: Option<&FormerAgent>, now: Timestamp) -> Agent {
        let mut agent = Agent::newcomer(id.clone(), now);
        if let Some(former) = former {
            agent.name.clone_from(&former.name);
            agent.completed = former.completed;
            agent.failed = former.failed;
            agent.runtime_ms = former.runtime_ms;
        }
        agent
    }

    /// An agent of which nothing is known but its id.
    pub fn newcomer(id: AgentId, now: Timestamp) -> Agent {
        Agent {
            name: id.to_string(),
            id,
            kind: AgentKind::Custom,
            presence: Presence::Gone { at: now },
            skills: Skills::default(),
            capabilities: Capabilities {
                max_task_minutes: 60,
                can_run_tests: true,
                can_run_build: true,
                can_access_browser: false,
            },
            machine: None,
            registered_at: now,
            seen_at: now,
            heartbeats: 0,
            last_active_at: now,
            holds: Vec::new(),
            current: None,
            completed: 0,
            failed: 0,
            runtime_ms: 0,
            metrics: None,
            commands: Vec::new(),
            key_generation: 0,
            inbox: 0,
            doors: Vec::new(),
            silent_after: Some(limits::SILENT_AFTER),
            stream: Stream::default(),
            rev: 0,
        }
    }
}
