//! Counts everything anew from the rows themselves, and holds it against what the ledger says.

use switchboard_store::conformance::Everything;

use super::{Desk, Hand};

/// Queries that find something only where the ledger contradicts itself.
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("notes are left", "SELECT n, tbl, key, deed FROM sb_hand"),
    (
        "tasks that were never taken in",
        "SELECT id, number, rev FROM tasks WHERE rev <= 0 OR number <= 0",
    ),
    ("agents that were never taken in", "SELECT id, rev FROM agents WHERE rev <= 0"),
    (
        "messages that were never taken in",
        "SELECT id, number, rev FROM messages WHERE rev <= 0 OR (number <= 0) <> (copy_of IS NOT NULL)",
    ),
    ("leases that were never taken in", "SELECT file_path, rev FROM leases WHERE rev <= 0"),
    ("a task in a state the hub does not have", "SELECT id FROM tasks WHERE status = 'pending'"),
    (
        "the head counts tasks",
        "SELECT * FROM (SELECT word.value AS word, CAST(held.value AS bigint) AS held, (SELECT count(*) FROM tasks WHERE status = word.value) AS found
         FROM json_each('[\"blocked\",\"ready\",\"claimed\",\"in_progress\",\"pending_retry\",\"needs_review\",\"completed\",\"failed\",\"canceled\"]') word
         JOIN json_each((SELECT tasks FROM sb_head)) held ON held.key = word.key) counted WHERE held <> found",
    ),
    (
        "the head counts leases",
        "SELECT leases FROM sb_head WHERE leases <> (SELECT count(*) FROM leases)",
    ),
    (
        "the head counts waiting messages",
        "SELECT queued_deliveries FROM sb_head WHERE queued_deliveries <> (SELECT count(*) FROM sb_delivery WHERE state = 'queued')",
    ),
    (
        "the head is behind",
        "SELECT 1 FROM sb_head WHERE task_number < coalesce((SELECT max(number) FROM tasks), 0)
           OR message_number < coalesce((SELECT max(number) FROM messages), 0)
           OR fencing < coalesce((SELECT max(fencing) FROM leases), 0)",
    ),
    (
        "a lane counts",
        "SELECT * FROM (SELECT lane, ready, held, (SELECT count(*) FROM tasks t WHERE t.lane = sb_lane.lane AND status = 'ready') AS waits,
           (SELECT count(*) FROM tasks t WHERE t.lane = sb_lane.lane AND status IN ('claimed', 'in_progress')) AS works
         FROM sb_lane) counted WHERE ready <> waits OR held <> works OR ready + held = 0",
    ),
    (
        "a lane begins behind its first task",
        "SELECT lane, head FROM sb_lane WHERE head > (SELECT min(number) FROM tasks t WHERE t.lane = sb_lane.lane AND status = 'ready')",
    ),
    (
        "an open task is in no lane",
        "SELECT id, lane FROM tasks WHERE status IN ('ready', 'claimed', 'in_progress')
           AND NOT EXISTS (SELECT 1 FROM sb_lane WHERE sb_lane.lane = tasks.lane)",
    ),
    (
        "lanes are counted by word",
        "SELECT rep, lanes FROM sb_rep WHERE lanes <> (SELECT count(*) FROM sb_lane WHERE sb_lane.rep = sb_rep.rep)",
    ),
    (
        "a holder does not know its task",
        "SELECT id, assigned_agent FROM tasks WHERE status IN ('claimed', 'in_progress') AND assigned_agent <> 'steward' AND NOT EXISTS (
           SELECT 1 FROM agents a, json_each(a.holds) h WHERE a.id = tasks.assigned_agent AND h.value = tasks.id AND presence <> 'gone')",
    ),
    (
        "an agent holds what is not its own, or twice",
        "SELECT a.id, h.value FROM agents a, json_each(a.holds) h WHERE NOT EXISTS (
           SELECT 1 FROM tasks WHERE id = h.value AND assigned_agent = a.id AND status IN ('claimed', 'in_progress'))
         UNION ALL SELECT a.id, h.value FROM agents a, json_each(a.holds) h GROUP BY 1, 2 HAVING count(*) > 1",
    ),
    (
        "who signed off is among those that are there, or the other way round",
        "SELECT id, presence FROM agents WHERE presence = 'gone' UNION ALL SELECT id, presence FROM sb_gone_agent WHERE presence <> 'gone'
         UNION ALL SELECT id, presence FROM agents WHERE id IN (SELECT id FROM sb_gone_agent)",
    ),
    (
        "an inbox counts",
        "SELECT id, inbox FROM (SELECT id, inbox FROM agents UNION ALL SELECT id, inbox FROM sb_gone_agent) a
         WHERE inbox <> (SELECT count(*) FROM sb_delivery WHERE agent = a.id AND state = 'queued')",
    ),
    (
        "a delivery of no message",
        "SELECT message, number FROM sb_delivery d WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.number = d.number AND m.id = d.message)",
    ),
    (
        "a copy is not as its delivery",
        "SELECT m.id, d.state, m.delivered_at, m.acknowledged_at FROM messages m LEFT JOIN sb_delivery d ON d.number = m.copy_of AND d.agent = m.to_agent
         WHERE m.copy_of IS NOT NULL AND (d.state IS NULL OR (d.delivered_at IS NULL) <> (m.delivered_at IS NULL)
           OR (d.acknowledged_at IS NULL) <> (m.acknowledged_at IS NULL))",
    ),
    (
        "a message to one is not as its delivery",
        "SELECT m.id, d.state, m.delivered_at FROM messages m LEFT JOIN sb_delivery d ON d.number = m.number AND d.agent = m.to_agent
         WHERE m.copy_of IS NULL AND m.to_agent NOT LIKE '% %' AND (d.state IS NULL OR (d.state = 'queued' AND m.delivered_at IS NOT NULL)
           OR (d.state = 'delivered' AND m.delivered_at IS NULL) OR (d.acknowledged_at IS NULL) <> (m.acknowledged_at IS NULL))",
    ),
    (
        "a lease for a task that its agent does not hold",
        "SELECT file_path, agent_id, task_id FROM leases l WHERE task_id IS NOT NULL AND NOT EXISTS (
           SELECT 1 FROM tasks WHERE id = l.task_id AND assigned_agent = l.agent_id AND status IN ('claimed', 'in_progress'))",
    ),
    (
        "a lease of an agent that is not there",
        "SELECT file_path, agent_id FROM leases l WHERE NOT EXISTS (SELECT 1 FROM agents WHERE id = l.agent_id AND presence <> 'gone')",
    ),
    (
        "a dependency is not filed",
        "SELECT t.id, d.value FROM tasks t, json_each(t.dependencies) d WHERE NOT EXISTS (
           SELECT 1 FROM sb_dep WHERE needs = d.value AND task = t.id AND number = t.number)",
    ),
    (
        "dependants are counted",
        "SELECT id, dependants FROM tasks WHERE dependants < (SELECT count(*) FROM sb_dep WHERE needs = tasks.id)",
    ),
    (
        "a task waits for nothing, or does not wait",
        "SELECT id, status, blockers FROM tasks WHERE (status = 'blocked' AND blockers = '[]') OR (status = 'ready' AND blockers <> '[]')
           OR EXISTS (SELECT 1 FROM json_each(blockers) b JOIN tasks d ON d.id = b.value WHERE d.status = 'completed')",
    ),
    (
        "the log has a gap",
        "SELECT first, last FROM sb_log l WHERE last < first OR NOT EXISTS (SELECT 1 FROM sb_log n WHERE n.first = l.last + 1)
           AND last <> (SELECT seq FROM sb_head)",
    ),
    (
        "an attempt of an epoch that never was",
        "SELECT a.task, a.epoch FROM sb_attempt a JOIN tasks t ON t.number = a.number WHERE a.epoch > t.epoch",
    ),
    (
        "times that clients cannot compare",
        "SELECT id, updated_at FROM tasks WHERE status <> 'ready' AND claimed_at IS NOT NULL
           AND (claimed_at NOT LIKE '____-__-__T__:__:__.___Z' OR claimed_at <> upper(claimed_at))
         UNION ALL SELECT file_path, expires_at FROM leases WHERE expires_at NOT LIKE '____-__-__T__:__:__.___Z' OR expires_at <> upper(expires_at)",
    ),
];

/// Panics with the first contradiction. Everything written by hand must have been taken in.
#[track_caller]
pub fn recount<H: Hand>(desk: &Desk<H>, after: &str) -> Everything {
    for (what, sql) in CONTRADICTIONS.iter().chain(H::WORDS.contradictions) {
        let found = desk.hand.rows(sql);
        assert!(found.is_empty(), "{what}: {found:?} after\n{after}");
    }
    let seen = desk.everything();
    for (logged, expected) in seen.log.iter().zip(1_u64..) {
        assert_eq!(logged.seq, expected, "a gap in the log after\n{after}");
    }
    assert_eq!(seen.log.len() as u64, seen.head.seq, "after\n{after}");
    for (at, left) in seen.leases.iter().enumerate() {
        for right in &seen.leases[at + 1..] {
            let at_once =
                left.acquired_at < right.expires_at && right.acquired_at < left.expires_at;
            let excluded =
                left.agent == right.agent || !at_once || !left.path.overlaps(&right.path);
            assert!(excluded, "{left:?} and {right:?} after\n{after}");
        }
    }
    seen
}
