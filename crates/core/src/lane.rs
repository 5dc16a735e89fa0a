//! Lanes: waiting tasks that exactly the same agents may take, oldest first.
//!
//! Everything that decides who may claim a task is part of the lane's key, so choosing a task means
//! choosing a lane and taking its head: the number of waiting tasks does not matter. A lane is found
//! through its `rep`, one word that an agent must answer to before it can qualify at all.

use std::fmt::Write;
use std::sync::Arc;

use crate::agent::Agent;
use crate::id::AgentId;
use crate::skills::Skills;
use crate::task::{Priority, Task, TaskKind};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    pub id: LaneId,
    pub key: LaneKey,
    pub rep: Rep,
    pub ready: u64,
    pub held: u64,
    /// No waiting task of this lane has a smaller number. It may be lower than the true head.
    pub head: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey {
    pub priority: Priority,
    pub kind: TaskKind,
    pub minutes: Option<u32>,
    pub skills: Skills,
    pub audience: Vec<AgentId>,
    /// Agents that failed it before; they come last.
    pub previous: Vec<AgentId>,
    /// Agents that may not have it.
    pub barred: Vec<AgentId>,
}

/// One word by which lanes are looked up: a skill, `@agent`, or one of the two shared words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rep(pub Arc<str>);

/// Why an agent may not take the tasks of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    NotInAudience,
    Barred,
    MissingSkill(Arc<str>),
    OverTimeLimit {
        estimate: u32,
        limit: u32,
    },
    NeedsBrowser,
    NeedsTests,
    /// It failed here before: until then others come first, while one of them is idle.
    FailedBefore {
        until: Timestamp,
    },
}

impl Rep {
    pub fn nobody_special() -> Rep {
        Rep("".into())
    }

    fn audience_of_many() -> Rep {
        Rep("@*".into())
    }

    fn audience_of_one(agent: &AgentId) -> Rep {
        Rep(format!("@{agent}").into())
    }

    /// All words under which lanes for this agent may be found.
    pub fn all_for(agent: &Agent) -> impl Iterator<Item = Rep> + '_ {
        [
            Rep::nobody_special(),
            Rep::audience_of_one(&agent.id),
            Rep::audience_of_many(),
        ]
        .into_iter()
        .chain(agent.skills.iter().map(|skill| Rep(skill.clone())))
    }
}

impl LaneKey {
    pub fn of(task: &Task) -> LaneKey {
        let mut audience = task.about.audience.clone();
        audience.sort();
        let mut barred = task.about.barred.clone();
        barred.sort();
        LaneKey {
            priority: task.about.priority,
            kind: task.about.kind,
            minutes: task.about.estimated_minutes,
            skills: task.about.required_skills.clone(),
            audience,
            previous: task.previous_agents.clone(),
            barred,
        }
    }

    pub fn matches(&self, task: &Task) -> bool {
        self.priority == task.about.priority
            && self.kind == task.about.kind
            && self.minutes == task.about.estimated_minutes
            && self.previous == task.previous_agents
            && self.audience.len() == task.about.audience.len()
            && self.barred.len() == task.about.barred.len()
            && *self == LaneKey::of(task)
    }

    /// The word to file this lane under; `lanes_under` tells how crowded a skill is already.
    pub fn rep(&self, lanes_under: impl Fn(&str) -> u64) -> Rep {
        match self.audience.as_slice() {
            [] => {
                let rarest = self.skills.iter().min_by_key(|skill| lanes_under(skill));
                rarest.map_or_else(Rep::nobody_special, |skill| Rep(skill.clone()))
            }
            [one] => Rep::audience_of_one(one),
            _ => Rep::audience_of_many(),
        }
    }

    /// Every reason that speaks against this agent, except [`Unfit::FailedBefore`], which depends on others.
    pub fn unfit<'a>(&'a self, agent: &'a Agent) -> impl Iterator<Item = Unfit> + 'a {
        let audience = (!self.audience.is_empty() && !self.audience.contains(&agent.id))
            .then_some(Unfit::NotInAudience);
        let barred = self.barred.contains(&agent.id).then_some(Unfit::Barred);
        let asked = self
            .audience
            .is_empty()
            .then(|| self.skills.missing_from(&agent.skills));
        let skills = asked
            .into_iter()
            .flatten()
            .cloned()
            .map(Unfit::MissingSkill);
        let limit = agent.capabilities.max_task_minutes;
        let minutes = self
            .minutes
            .filter(|estimate| *estimate > limit)
            .map(|estimate| Unfit::OverTimeLimit { estimate, limit });
        let kind = match self.kind {
            TaskKind::BrowserTest if !agent.capabilities.can_access_browser => {
                Some(Unfit::NeedsBrowser)
            }
            TaskKind::Test if !agent.capabilities.can_run_tests => Some(Unfit::NeedsTests),
            TaskKind::BrowserTest
            | TaskKind::Test
            | TaskKind::Code
            | TaskKind::Documentation
            | TaskKind::Review
            | TaskKind::Custom
            | TaskKind::SkillDistribution => None,
        };
        audience
            .into_iter()
            .chain(barred)
            .chain(skills)
            .chain(minutes)
            .chain(kind)
    }

    pub fn admits(&self, agent: &Agent) -> bool {
        self.unfit(agent).next().is_none()
    }

    pub fn failed_by(&self, agent: &AgentId) -> bool {
        self.previous.contains(agent)
    }

    /// One line of text that stands for this key; equal keys give equal lines.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\u{1f}{}\u{1f}", self.priority, self.kind);
        if let Some(minutes) = self.minutes {
            let _ = write!(text, "{minutes}");
        }
        let skills: Vec<&str> = self.skills.iter().map(|skill| &**skill).collect();
        let audience: Vec<&str> = self.audience.iter().map(AgentId::as_str).collect();
        let previous: Vec<&str> = self.previous.iter().map(AgentId::as_str).collect();
        for list in [skills, audience, previous] {
            text.push('\u{1f}');
            text.push_str(&list.join("\u{1e}"));
        }
        if !self.barred.is_empty() {
            let barred: Vec<&str> = self.barred.iter().map(AgentId::as_str).collect();
            text.push('\u{1f}');
            text.push_str(&barred.join("\u{1e}"));
        }
        text
    }

    pub fn from_text(text: &str) -> Option<LaneKey> {
        let mut parts = text.split('\u{1f}');
        let mut part = || parts.next();
        let (priority, kind, minutes) = (part()?, part()?, part()?);
        let (skills, audience, previous) = (part()?, part()?, part()?);
        // Of most lanes, and of all that an older build made, there is none.
        let barred = part().unwrap_or_default();
        let ids = |list: &str| -> Vec<AgentId> {
            list.split('\u{1e}')
                .filter(|id| !id.is_empty())
                .map(AgentId::from)
                .collect()
        };
        Some(LaneKey {
            priority: Priority::parse(priority)?,
            kind: TaskKind::parse(kind)?,
            minutes: if minutes.is_empty() {
                None
            } else {
                Some(minutes.parse().ok()?)
            },
            skills: Skills::new(skills.split('\u{1e}')),
            audience: ids(audience),
            previous: ids(previous),
            barred: ids(barred),
        })
    }
}

impl Lane {
    /// Where this lane stands among the others of its rep.
    pub fn position(&self) -> Position {
        Position {
            priority: self.key.priority,
            head: self.head,
            lane: self.id,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ready == 0 && self.held == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub priority: Priority,
    pub head: u64,
    pub lane: LaneId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text() {
        let keys = [
            LaneKey {
                priority: Priority::High,
                kind: TaskKind::BrowserTest,
                minutes: Some(30),
                skills: Skills::new(["rust", "sql"]),
                audience: vec!["a".into(), "b".into()],
                previous: vec!["c".into()],
                barred: vec!["d".into(), "e".into()],
            },
            LaneKey {
                priority: Priority::Low,
                kind: TaskKind::Code,
                minutes: None,
                skills: Skills::default(),
                audience: vec![],
                previous: vec![],
                barred: vec![],
            },
        ];
        for key in keys {
            assert_eq!(LaneKey::from_text(&key.to_text()), Some(key));
        }
    }
}
