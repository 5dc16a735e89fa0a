//! What was found in the memory.

use switchboard_core as core;

use crate::agentbus::{Scope, engram};
use crate::jetpack::{EngramFound, Learning, MemoryKind};

/// Lines of an engram that are shown at most.
const LINES_MAX: usize = 3;

/// What an agent learned.
pub fn learning(learning: &core::Learning) -> Learning {
    Learning {
        kind: MemoryKind::Learning,
        id: learning.id.to_string(),
        text: learning.text.clone(),
        task_id: learning.task.as_ref().map(ToString::to_string),
        agent_id: learning.agent.as_ref().map(ToString::to_string),
        created_at: learning.created_at.into(),
    }
}

/// An engram that has these words somewhere.
pub fn engram_found(engram: &core::Engram, words: &str) -> EngramFound {
    let entry = &engram.entry;
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let has_one = |line: &&str| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word))
    };
    let lines = engram.words.lines().filter(has_one);
    EngramFound {
        kind: MemoryKind::Engram,
        id: entry.id.to_string(),
        scope: entry.scope.as_str().to_owned(),
        version: entry.version.clone(),
        path: engram::path(entry.scope.into(), &entry.version, entry.id.as_str()),
        topics: entry.topics.clone(),
        lines: lines.take(LINES_MAX).map(str::to_owned).collect(),
        created_at: entry.created_at.into(),
    }
}

impl From<core::engram::Scope> for Scope {
    fn from(scope: core::engram::Scope) -> Self {
        match scope {
            core::engram::Scope::ShortTerm => Scope::Short,
            core::engram::Scope::LongTerm => Scope::Long,
        }
    }
}

impl From<Scope> for core::engram::Scope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Short => core::engram::Scope::ShortTerm,
            Scope::Long => core::engram::Scope::LongTerm,
        }
    }
}
