//! Capabilities: what agents can be asked for by name, in versions that somebody published, and where the work goes.
//!
//! A [`Capability`] is what every node knows of one, from the node that owns it. A [`Release`] is one version of it, kept
//! where it was published. Whether a skill resolves and a signature fits is found out outside.

use std::borrow::Cow;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CapabilityId, NodeId};
use crate::iso::Printed;
use crate::limits;
use crate::outbox::{Control, Route};
use crate::record::{Private, RecordRange};
use crate::time::Timestamp;

/// What somebody publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub capability: CapabilityId,
    pub name: String,
    /// As semver has it; a lower one never follows.
    pub version: String,
    pub owner_agent: AgentId,
    pub owner_node: NodeId,
    /// What those need who delegate to it, and what the one who does it needs.
    pub delegation: SkillRef,
    pub executor: SkillRef,
    /// Where the schema is; without one results are not checked.
    pub contract_ref: Option<String>,
    /// The schema that results are checked against, as JSON.
    pub contract_schema: Option<Box<str>>,
    pub eta_seconds: u32,
    /// Those who may do it, by the node that they are at; its owner is one of them.
    pub eligible: Vec<Route>,
    /// Nodes that do it while its owner's is away, in this order.
    pub fallback_nodes: Vec<NodeId>,
    pub provenance: Provenance,
    pub published_by: AgentId,
}

/// A skill of a version, and where it is said to be: shown, never opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    pub name: String,
    pub version: String,
    pub path: String,
}

/// Where a manifest comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// `sha256:` and hexadecimal.
    pub checksum: String,
    pub signature: Option<String>,
    pub key_id: Option<String>,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum CapabilityStatus {
        /// Its first version is being published: it routes nothing yet.
        Publishing = "publishing",
        Active = "active",
        /// It routes nothing for now.
        Disabled = "disabled",
        /// It was taken back; a higher version brings it back.
        Retired = "retired",
    }
}

/// A capability as all nodes know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub manifest: Manifest,
    pub status: CapabilityStatus,
    pub published_at: Timestamp,
    /// Of its catalog record; the last one counts.
    pub rev: u64,
    pub index: Index,
    pub routing: Routing,
}

/// Who is given its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    pub eligible: Vec<Route>,
    pub policy_version: String,
    pub updated_at: Timestamp,
    pub rev: u64,
}

/// Which node its tasks go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    pub owner: NodeId,
    pub fallback: Vec<NodeId>,
    pub policy_version: String,
    pub rev: u64,
    /// The one that the last task went to from here: another one than before is told.
    pub acting: NodeId,
}

impl Private for Capability {
    fn key(&self) -> Cow<'static, str> {
        self.manifest.capability.to_string().into()
    }

    fn owner(&self) -> &str {
        self.manifest.owner_node.as_str()
    }

    fn position(&self) -> Option<i64> {
        Some(0)
    }
}

/// A skill that only an index grants.
pub fn is_granted(word: &str) -> bool {
    word.get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// What ids of capabilities begin with.
pub const PREFIX: &str = "cap.";

impl Capability {
    /// Those of a node.
    pub fn of_node(node: &NodeId, limit: usize) -> RecordRange {
        RecordRange::of::<Capability>(node.to_string(), limit)
    }

    pub fn id(&self) -> &CapabilityId {
        &self.manifest.capability
    }

    pub fn is_active(&self) -> bool {
        self.status == CapabilityStatus::Active
    }

    /// Agents of a node that may be given its tasks.
    pub fn eligible_at(&self, node: &NodeId) -> &[AgentId] {
        let mut routes = self.index.eligible.iter();
        let found = routes.find(|route| route.node == *node);
        found.map_or(&[], |route| &route.agents)
    }

    /// Agents of a node that have it as a skill.
    pub fn granted_at(&self, node: &NodeId) -> &[AgentId] {
        match self.is_active() {
            true => self.eligible_at(node),
            false => &[],
        }
    }

    /// What other nodes are told of it, each record with its number; nothing while its first version is published.
    pub fn records(&self) -> Vec<(u64, Control)> {
        if self.status == CapabilityStatus::Publishing {
            return Vec::new();
        }
        let catalog = Control::Catalog {
            manifest: Box::new(self.manifest.clone()),
            status: self.status,
            published_at: self.published_at,
        };
        let index = Control::Index {
            capability: self.id().clone(),
            index: self.index.clone(),
        };
        let routing = Control::Routing {
            capability: self.id().clone(),
            routing: self.routing.clone(),
        };
        vec![
            (self.rev, catalog),
            (self.index.rev, index),
            (self.routing.rev, routing),
        ]
    }

    /// The nodes that can do it, as they come in turn.
    pub fn nodes(&self) -> Vec<&NodeId> {
        let indexed = self.index.eligible.iter().map(|route| &route.node);
        let mut nodes = vec![&self.routing.owner];
        for node in self.routing.fallback.iter().chain(indexed) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }
}

/// Whether a version may follow another one: it is higher by semver's precedence.
pub fn follows(version: &str, before: &str) -> bool {
    match (Version::parse(version), Version::parse(before)) {
        (Ok(version), Ok(before)) => version.cmp_precedence(&before).is_gt(),
        (Ok(_), Err(_)) => true,
        (Err(_), _) => false,
    }
}

/// Whether semver has such a version.
pub fn is_version(text: &str) -> bool {
    text.len() <= limits::ID_BYTES_MAX && Version::parse(text).is_ok()
}

/// One version of a capability, where it was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub manifest: Manifest,
    pub state: ReleaseState,
    /// What each gate said, in their order.
    pub gates: Vec<GateResult>,
    pub at: Timestamp,
    /// The person who published it.
    pub by: String,
    /// Tells this attempt from others of the same version.
    pub attempt: String,
    /// While it is being published: after that it has failed.
    pub until: Option<Timestamp>,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum ReleaseState {
        Publishing = "publishing",
        /// It is, or was, what the capability is; a later one may have taken its place.
        Published = "published",
        /// A gate did not let it pass: the version before stayed.
        Failed = "failed",
    }
}

words! {
    /// What a version passes on its way, in this order.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum PublishGate {
        Authorisation = "authorisation",
        Schema = "schema",
        Provenance = "provenance",
        OwnerAlive = "owner_alive",
        Install = "install",
        Wire = "wire",
        Smoke = "smoke",
        Rollout = "rollout",
        IndexActivation = "index_activation",
        PostCheck = "post_check",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum GateOutcome {
        Passed = "passed",
        Failed = "failed",
        Skipped = "skipped",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateResult {
    pub gate: PublishGate,
    pub outcome: GateOutcome,
    /// For a person.
    pub note: String,
}

impl GateResult {
    pub fn passed(gate: PublishGate, note: impl Into<String>) -> GateResult {
        GateResult::new(gate, GateOutcome::Passed, note)
    }

    pub fn failed(gate: PublishGate, note: impl Into<String>) -> GateResult {
        GateResult::new(gate, GateOutcome::Failed, note)
    }

    pub fn skipped(gate: PublishGate, note: impl Into<String>) -> GateResult {
        GateResult::new(gate, GateOutcome::Skipped, note)
    }

    fn new(gate: PublishGate, outcome: GateOutcome, note: impl Into<String>) -> GateResult {
        let note = limits::cut(&note.into(), limits::NOTE_BYTES_MAX).to_owned();
        GateResult {
            gate,
            outcome,
            note,
        }
    }
}

/// Gates that follow one that failed are skipped.
pub fn all_gates(mut said: Vec<GateResult>) -> Vec<GateResult> {
    for gate in PublishGate::ALL {
        if !said.iter().any(|one| one.gate == *gate) {
            said.push(GateResult::skipped(*gate, "a gate before it failed"));
        }
    }
    said.sort_by_key(|one| one.gate as usize);
    said
}

impl Private for Release {
    fn key(&self) -> Cow<'static, str> {
        Release::key_of(&self.manifest.capability, &self.manifest.version).into()
    }

    fn owner(&self) -> &str {
        self.manifest.capability.as_str()
    }

    fn position(&self) -> Option<i64> {
        Some(self.at.0)
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.until
    }
}

impl Release {
    pub fn key_of(capability: &CapabilityId, version: &str) -> String {
        format!("{capability}@{version}")
    }

    /// Of one capability, newest first.
    pub fn versions_of(capability: &CapabilityId) -> RecordRange {
        let limit = limits::CAPABILITY_VERSIONS_MAX;
        RecordRange::newest::<Release>(capability.to_string(), limit)
    }
}

/// Skills that indexes grant to an agent of this node: they stand beside what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    pub agent: AgentId,
    pub skills: Vec<CapabilityId>,
}

impl Private for Granted {
    fn key(&self) -> Cow<'static, str> {
        self.agent.to_string().into()
    }
}

/// The numbers of policy versions: the n-th change of its day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    capability: DayCount,
    routing: DayCount,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct DayCount {
    day: String,
    count: u32,
}

impl Private for Policies {}

impl Policies {
    /// Of an index that changed.
    pub fn next_capability(&mut self, now: Timestamp) -> String {
        self.capability.next("cpv", now)
    }

    /// Of a change of owner, fallback or the node that acts for it.
    pub fn next_routing(&mut self, now: Timestamp) -> String {
        self.routing.next("rpv", now)
    }
}

impl DayCount {
    fn next(&mut self, word: &str, now: Timestamp) -> String {
        let day = Printed::new(now).as_str()[..10].replace('-', "_");
        if day > self.day {
            *self = DayCount { day, count: 0 };
        }
        self.count += 1;
        format!("{word}_{}_{}", self.day, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_follows_one_that_is_lower_and_no_other() {
        for (version, before, may) in [
            ("1.3.0", "1.2.9", true),
            ("1.10.0", "1.9.0", true),
            ("1.0.0", "1.0.0-rc.1", true),
            ("1.3.0", "1.3.0", false),
            ("1.3.0+b", "1.3.0+a", false),
            ("1.2.9", "1.3.0", false),
            ("1.0.0-rc.1", "1.0.0", false),
            ("two", "1.0.0", false),
        ] {
            assert_eq!(follows(version, before), may, "{version} after {before}");
        }
        for odd in ["", "1", "1.0", "v1.0.0", "01.0.0", &"1".repeat(200)] {
            assert!(!is_version(odd), "{odd}");
        }
    }

    #[test]
    fn policy_versions_count_the_changes_of_a_day() {
        let mut policies = Policies::default();
        let at = |day: i64| Timestamp(1_772_000_000_000 + day * 86_400_000);
        assert_eq!(policies.next_capability(at(0)), "cpv_2026_02_25_1");
        assert_eq!(policies.next_capability(at(0)), "cpv_2026_02_25_2");
        assert_eq!(policies.next_routing(at(0)), "rpv_2026_02_25_1");
        assert_eq!(policies.next_capability(at(1)), "cpv_2026_02_26_1");
        // A clock that was set back gives no version twice.
        assert_eq!(policies.next_capability(at(0)), "cpv_2026_02_26_2");
    }

    #[test]
    fn only_words_of_capabilities_are_granted() {
        for (word, granted) in [
            ("cap.x", true),
            ("CAP.X", true),
            ("cap", false),
            ("rust", false),
        ] {
            assert_eq!(is_granted(word), granted, "{word}");
        }
    }
}
