//! Every clause of the protocol, its level, and the story that looks at it.

/// One thing after another between the checker and the hub; several clauses are seen in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Story {
    /// Two nodes that have nothing to say.
    Quiet,
    /// What is wrong with an event that is brought.
    Envelope,
    /// What is wrong with who brings it.
    Tickets,
    /// Everything that the hub published meanwhile.
    Seen,
    Messages,
    /// Tasks that an agent of the hub does.
    Inbound,
    /// Tasks that the hub's agents want done by the checker's.
    Outbound,
    Resend,
    Cursors,
    Gaps,
    Lease,
    Capabilities,
    Skills,
    Reviews,
    Lateness,
    /// An agent that lives elsewhere.
    External,
}

/// How a clause is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Story(Story),
    /// It is not to be seen by who only talks to the hub, because of this.
    Nobody(&'static str),
    /// All clauses that begin with one of these hold.
    Parts(&'static [&'static str]),
}

pub struct Clause {
    pub id: &'static str,
    pub level: u8,
    pub by: By,
}

const fn row(id: &'static str, level: u8, by: By) -> Clause {
    Clause { id, level, by }
}

const fn seen(id: &'static str, level: u8, story: Story) -> Clause {
    row(id, level, By::Story(story))
}

const KILL: &str = "only who kills the hub sees it";

#[rustfmt::skip]
pub const CLAUSES: &[Clause] = &[
    seen("runtime.plane.control_metadata_only", 1, Story::Seen),
    seen("runtime.plane.own_outbox_only", 1, Story::Tickets),
    seen("runtime.plane.consumer_reads_others", 1, Story::Messages),
    seen("runtime.plane.owner_executes", 2, Story::Capabilities),
    seen("runtime.plane.quiet", 1, Story::Quiet),
    seen("runtime.envelope.required", 1, Story::Envelope),
    seen("runtime.envelope.source", 1, Story::Envelope),
    seen("runtime.envelope.to_agent", 1, Story::Messages),
    seen("runtime.envelope.times", 1, Story::Envelope),
    seen("runtime.envelope.trace", 1, Story::Seen),
    seen("runtime.envelope.event_id_unique", 1, Story::Envelope),
    seen("runtime.envelope.seq_monotonic", 1, Story::Seen),
    seen("runtime.envelope.corr_id_required", 1, Story::Envelope),
    seen("runtime.envelope.corr_id_carried", 1, Story::Messages),
    seen("runtime.envelope.attempt_increments", 1, Story::Resend),
    seen("runtime.catalog.identity", 2, Story::Capabilities),
    seen("runtime.catalog.owner", 2, Story::Capabilities),
    seen("runtime.catalog.skill_refs", 2, Story::Capabilities),
    seen("runtime.catalog.contract_schema", 2, Story::Capabilities),
    seen("runtime.catalog.published", 2, Story::Capabilities),
    seen("runtime.catalog.owner_active", 2, Story::Capabilities),
    seen("runtime.catalog.executor_resolves", 2, Story::Capabilities),
    seen("runtime.catalog.eta_bounds", 2, Story::Capabilities),
    seen("runtime.index.fields", 2, Story::Capabilities),
    seen("runtime.index.activates_routing", 2, Story::Capabilities),
    seen("runtime.index.policy_version", 2, Story::Capabilities),
    seen("runtime.message.payload", 1, Story::Messages),
    seen("runtime.message.to_agents_required", 1, Story::Messages),
    seen("runtime.message.all_expanded", 1, Story::Messages),
    seen("runtime.message.exactly_once", 1, Story::Messages),
    row("runtime.message.ledger_durable", 1, By::Nobody(KILL)),
    seen("runtime.task_create.fields", 1, Story::Outbound),
    seen("runtime.task_create.routing_fields", 1, Story::Outbound),
    seen("runtime.task_create.request_fields", 1, Story::Outbound),
    seen("runtime.route.explicit_targets", 1, Story::Outbound),
    seen("runtime.route.by_capability", 2, Story::Capabilities),
    seen("runtime.route.missing_both", 1, Story::Outbound),
    seen("runtime.route.no_route", 1, Story::Outbound),
    seen("runtime.route.one_winner", 1, Story::Outbound),
    seen("runtime.task_accept.fields", 1, Story::Inbound),
    seen("runtime.task_accept.ack_form", 1, Story::Outbound),
    seen("runtime.task_accept.before_execution", 1, Story::Inbound),
    seen("runtime.task_accept.eta_required", 1, Story::Outbound),
    seen("runtime.task_update.fields", 1, Story::Inbound),
    seen("runtime.task_update.revised_eta", 1, Story::Outbound),
    seen("runtime.task_complete.fields", 1, Story::Inbound),
    seen("runtime.task_complete.terminal", 1, Story::Outbound),
    seen("runtime.task_failed.fields", 1, Story::Inbound),
    seen("runtime.task_failed.terminal", 1, Story::Outbound),
    seen("runtime.ack.reference", 1, Story::Seen),
    seen("runtime.ack.actor", 1, Story::Seen),
    seen("runtime.ack.eta", 1, Story::Inbound),
    seen("runtime.ack.type_enum", 1, Story::Outbound),
    seen("runtime.ack.receiver_outbox", 1, Story::Messages),
    row("runtime.ack.accepted_durable", 1, By::Nobody(KILL)),
    seen("runtime.ack.processed_terminal", 1, Story::Messages),
    seen("runtime.ack.failed_terminal", 1, Story::Resend),
    seen("runtime.cursor.per_pair", 1, Story::Cursors),
    seen("runtime.cursor.contiguous", 1, Story::Cursors),
    seen("runtime.cursor.record", 1, Story::Cursors),
    seen("runtime.cursor.lease", 1, Story::Lease),
    seen("runtime.cursor.epoch", 1, Story::Cursors),
    row("runtime.cursor.after_enqueue", 1, By::Nobody(KILL)),
    seen("runtime.cursor.gap_blocks", 2, Story::Gaps),
    seen("runtime.cursor.gap_filled", 2, Story::Gaps),
    seen("runtime.cursor.gap_incident", 2, Story::Gaps),
    seen("runtime.cursor.gap_policy", 2, Story::Gaps),
    seen("runtime.compaction.active_only", 2, Story::Lease),
    seen("runtime.default.gap_timeout", 2, Story::Gaps),
    seen("runtime.default.cursor_lease", 1, Story::Cursors),
    seen("runtime.default.accepted_timeout", 1, Story::Resend),
    seen("runtime.default.processed_grace", 2, Story::Lateness),
    seen("runtime.skill.task_created", 2, Story::Skills),
    seen("runtime.skill.targets", 2, Story::Skills),
    seen("runtime.skill.confirmed", 2, Story::Skills),
    seen("runtime.skill.payload", 2, Story::Skills),
    seen("runtime.review.eta_missed", 2, Story::Lateness),
    seen("runtime.review.task_failed", 2, Story::Reviews),
    seen("runtime.review.schema_failed", 2, Story::Reviews),
    seen("runtime.review.route_failing", 2, Story::Reviews),
    seen("runtime.review.identity", 2, Story::Reviews),
    seen("runtime.review.evidence", 2, Story::Reviews),
    row("runtime.l1.envelope_cursor", 1, By::Parts(&["runtime.envelope.", "runtime.cursor."])),
    row("runtime.l1.acks", 1, By::Parts(&["runtime.ack."])),
    row("runtime.l1.task_cycle", 1, By::Parts(&["runtime.task_", "runtime.route."])),
    row("runtime.l2.gap_handling", 2, By::Parts(&["runtime.cursor.gap_"])),
    row("runtime.l2.capability_index", 2, By::Parts(&["runtime.catalog.", "runtime.index."])),
    row("runtime.l2.auto_review", 2, By::Parts(&["runtime.review."])),
    seen("runtime.l3.pop_tokens", 3, Story::External),
    seen("runtime.l3.replay_nonce", 3, Story::External),
    seen("runtime.l3.replay_jti", 3, Story::External),
    seen("runtime.l3.audit_correlation", 3, Story::External),
];

/// Whether a clause is listed; what is said of another one would be lost.
pub fn is_clause(id: &str) -> bool {
    CLAUSES.iter().any(|clause| clause.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_of_the_document_is_listed_once_in_its_order() {
        let listed = include_str!("../../../../docs/clauses/runtime.txt");
        let wanted = listed
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .filter_map(|line| line.split('\t').next());
        let ours = CLAUSES.iter().map(|clause| clause.id);
        assert_eq!(ours.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_a_clause_are_of_its_level_or_below() {
        for clause in CLAUSES {
            let By::Parts(parts) = clause.by else {
                continue;
            };
            for part in parts {
                let has = |one: &&Clause| one.id.starts_with(part) && one.level <= clause.level;
                assert!(CLAUSES.iter().any(|one| has(&one)), "{} {part}", clause.id);
            }
        }
    }
}
