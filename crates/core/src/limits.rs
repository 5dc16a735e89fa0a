//! Every bound of the hub, by name. Each has a test at n-1, n and n+1 where it is enforced.

use std::time::Duration;

/// As much of a text as fits, in whole characters.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Ids of any kind, in bytes.
pub const ID_BYTES_MAX: usize = 128;
pub const NAME_BYTES_MAX: usize = 256;
pub const TITLE_BYTES_MAX: usize = 1024;
pub const DESCRIPTION_BYTES_MAX: usize = 256 * 1024;
/// Summaries, reasons, progress notes and failure messages.
pub const NOTE_BYTES_MAX: usize = 16 * 1024;
/// Failure details: stack traces, logs.
pub const DETAILS_BYTES_MAX: usize = 64 * 1024;
/// Past it the oldest open incident is resolved by the hub.
pub const INCIDENTS_OPEN_MAX: usize = 1000;
pub const RESOLVED_INCIDENTS_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Programs that are noted as running; past it the oldest note gives way.
pub const RUNS_MAX: usize = 64;
/// What a speaker said last is remembered, so that nothing is taken twice. It is written anew with every message.
pub const UTTERANCES_KEPT: usize = 16;
/// The same content under another id within this time is the same message.
pub const SAME_SIGNATURE_FOR: Duration = Duration::from_secs(15);
/// Acknowledgements of one agent that one message may give.
pub const OWED_PER_LOOK: usize = 64;
/// Claims that are kept at all, and that one message makes: more lines are text.
pub const ASSERTIONS_MAX: usize = 2000;
pub const ASSERTIONS_PER_MESSAGE_MAX: usize = 16;
pub const ASSERTION_BYTES_MAX: usize = 1024;
pub const ASSERTIONS_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Ways of failing that are counted; past it the one that was seen least lately is forgotten.
pub const RECURRENCES_MAX: usize = 500;
pub const RECURRENCES_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// A person who was heard in a chat is answered there for so long.
pub const CHAT_OPEN_FOR: Duration = Duration::from_secs(5 * 60);
/// How far somebody's messages were numbered is known for so long after the last one.
pub const COUNTED_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
pub const REFUSED_KEPT_FOR: Duration = Duration::from_secs(2 * 24 * 3600);
/// Roles that one agent holds by its skills; more are skills like others.
pub const ROLES_PER_AGENT_MAX: usize = 8;
/// Agents that hold one role beside the one that has its name.
pub const ROLE_HOLDERS_MAX: usize = 64;
/// What a result says beyond the protocol's members.
pub const OTHER_BYTES_MAX: usize = 64 * 1024;
pub const SKILL_BYTES_MAX: usize = 64;
pub const SKILLS_MAX: usize = 64;
pub const FILES_MAX: usize = 1000;
pub const PATH_BYTES_MAX: usize = 1024;
pub const PATH_SEGMENTS_MAX: usize = 64;
pub const DEPENDENCIES_MAX: usize = 256;
/// Tasks that may wait for one task; all are released in the commit that completes it.
pub const DEPENDANTS_MAX: u32 = 10_000;
pub const AUDIENCE_MAX: usize = 64;
/// Agents that had a task before, as a stranger may list them.
pub const PREVIOUS_AGENTS_MAX: usize = 10_000;
/// Agents that the answer to `why` names.
pub const WHY_AGENTS_MAX: usize = 20;
pub const TASKS_PER_CREATE_MAX: usize = 1000;
pub const EXCLUDED_IDS_MAX: usize = 256;
pub const MINUTES_MAX: u32 = 100_000;
pub const RETRIES_MAX: u32 = 100;
/// A worker's own issue number becomes a task's only up to here: numbers go on after the highest.
pub const ADOPTED_NUMBER_MAX: u64 = 1 << 40;
pub const CLAIMS_PER_AGENT_MAX: usize = 512;
pub const COMMANDS_PER_AGENT_MAX: usize = 32;
/// What an agent asks to be remembered, in one piece.
pub const MEMORY_NOTE_BYTES_MAX: usize = 4 * 1024;
/// The text of an engram, whatever is configured.
pub const ENGRAM_BYTES_MAX: usize = 1024 * 1024;
pub const LEARNINGS_PER_TASK_MAX: usize = 50;
/// Commands that a completion may name as its evidence.
pub const EVIDENCE_PER_TASK_MAX: usize = 50;
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// Agents that one message names.
pub const MESSAGE_RECIPIENTS_MAX: usize = 64;
/// Their ids together: what strangers' indexes on PostgreSQL can still hold.
pub const MESSAGE_RECIPIENTS_BYTES_MAX: usize = 2048;
/// Messages waiting for one agent; past it the sender is refused.
pub const INBOX_MAX: u32 = 10_000;
/// Numbers of messages that one text acknowledges by naming them.
pub const NAMED_NUMBERS_MAX: usize = 16;
/// Roles that are configured, the other words for each, and their length.
pub const ROLES_MAX: usize = 64;
pub const ROLE_WORDS_MAX: usize = 16;
pub const ROLE_WORD_BYTES_MAX: usize = 64;
pub const RECEIVE_DEFAULT: usize = 50;
pub const RECEIVE_MAX: usize = 500;
/// A page of messages ends once its payloads are larger than this.
pub const RECEIVE_BYTES: usize = 1024 * 1024;
/// The same for messages that go through a stream: they wait in memory until they are written.
pub const HAND_BYTES: usize = 256 * 1024;
pub const MESSAGE_TYPES_MAX: usize = 32;
/// Types of events that a query names.
pub const EVENT_TYPES_MAX: usize = 64;
pub const PAGE_DEFAULT: usize = 100;
pub const PAGE_MAX: usize = 1000;
/// Rows a filtered list looks at before it hands out a short page with a cursor.
pub const PAGE_SCAN_MAX: usize = 20_000;
/// A ledger file up to this size is checked before it is served, a larger one beside.
pub const CHECKED_BEFORE_SERVING_BYTES_MAX: u64 = 256 * 1024 * 1024;
pub const BATCH_OPERATIONS_MAX: usize = 512;
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bodies, all together, of HTTP callers that are not yet known.
pub const UNKNOWN_BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// HTTP connections from one address; loopback and trusted proxies speak for many.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 256;
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;
pub const LEASES_PER_AGENT_MAX: usize = 1000;

/// A lease never lasts longer; asking for more is granted as this.
pub const LEASE_FOR_MAX: Duration = Duration::from_secs(3600);
/// No sign of life for this long and an agent is taken for dead.
pub const SILENT_AFTER: Duration = Duration::from_secs(120);
/// A ledger that nobody served for longer than this had an outage: silence does not count across it.
pub const SERVED_GAP_MAX: Duration = Duration::from_secs(10);
/// A hub whose commit is under way for this long is not ready.
pub const COMMIT_WAITS_MAX: Duration = Duration::from_secs(10);
/// Stretches without a hub that are remembered one by one.
pub const GAPS_MAX: usize = 256;
/// After a gap longer than this, as after a jump of the clock, nothing is pruned for a while.
pub const GAP_LONG: Duration = Duration::from_secs(24 * 3600);
/// How long that is, in served time.
pub const PRUNE_HELD_FOR: Duration = Duration::from_secs(3600);
/// Of each kind of row, one in so many may be pruned within an hour, and at least so many.
pub const PRUNE_SHARE: u64 = 10;
pub const PRUNE_HOUR_MIN: u64 = 1000;
/// A wall clock that differs by more than this from what it should show was set.
pub const CLOCK_STEP: Duration = Duration::from_secs(2);
/// Clocks that are read one after the other, or from afar, differ by this much: it is made up for at once.
pub const CLOCK_NOISE: Duration = Duration::from_millis(250);
/// The ledger's clock goes towards the wall clock by at most one part in so many.
pub const CLOCK_SLEW: i64 = 10;
/// A longer outage is only believed of a machine that was not restarted meanwhile.
pub const OUTAGE_BELIEVED: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often a serving hub says so. Signs of life that were held back are written with it: no later than after 5 s.
pub const SERVED_EVERY: Duration = Duration::from_secs(4);
/// A coordinator that has not said for so long that it serves has ended, and its streams with it.
pub const COORDINATOR_GONE_AFTER: Duration = Duration::from_secs(15);
/// Nodes that are joined, and invitations that are open.
pub const NODES_MAX: usize = 1000;
pub const NODE_INVITES_MAX: usize = 1000;
/// How long a node may be invited for.
pub const NODE_INVITE_FOR_MIN: Duration = Duration::from_secs(5 * 60);
pub const NODE_INVITE_FOR_MAX: Duration = Duration::from_secs(15 * 60);
pub const NODE_INVITES_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// The key of a node that left is remembered for so long: until then its id is nobody else's.
pub const LEFT_NODES_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// A node shows its ticket for so long, then it asks for another.
pub const NODE_TICKET_FOR: Duration = Duration::from_secs(60);
/// How far the clocks of two nodes may differ.
pub const NODE_CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(2 * 3600);
/// A duty is taken for so long, and renewed so often.
pub const DUTY_FOR: Duration = Duration::from_secs(15);
pub const DUTY_RENEWED_EVERY: Duration = Duration::from_secs(5);
/// Signs of life are held back this long, so that heartbeats cost no commit each.
pub const PULSE_EVERY: Duration = Duration::from_secs(5);
/// At most one progress event per task in this time, unless the phase changes.
pub const PROGRESS_EVENT_EVERY: Duration = Duration::from_secs(5);
/// Progress moves less than this many points without an event.
pub const PROGRESS_EVENT_POINTS: u8 = 5;
pub const MESSAGE_EXPIRES_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// A claim that its agent has left behind and not named for this long goes back, unless configured otherwise.
pub const STALE_AFTER: Duration = Duration::from_secs(3600);
/// A heartbeat that names a task leaves a trace in its row at most this often.
pub const NAMED_EVERY: Duration = Duration::from_secs(60);
/// A pause with an end lasts no longer.
pub const PAUSE_FOR_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// A task that failed goes first to agents that have not failed it, for this long after it became ready.
pub const OTHERS_FIRST_FOR: Duration = Duration::from_secs(30);
pub const RETRY_BASE: Duration = Duration::from_secs(30);
pub const RETRY_MAX: Duration = Duration::from_secs(300);
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// Streams of events that one caller may have open, where callers are known.
pub const EVENT_STREAMS_PER_CALLER_MAX: usize = 16;
/// Messages that one stream handed over and that were not acknowledged yet; past it those that must be wait.
pub const UNACKNOWLEDGED_MAX: usize = 256;
/// A task that was taken back from a worker is not pushed to it again for this long.
pub const TAKEN_BACK_FOR: Duration = Duration::from_secs(30);
/// So many of them are remembered for one worker; past it the oldest may be pushed again.
pub const TAKEN_BACK_MAX: usize = 64;

/// Requests that may wait for one budget; past it they are refused.
pub const BUDGET_QUEUE_MAX: usize = 1000;
pub const BUDGET_QUEUE_PER_AGENT_MAX: usize = 32;
/// Grants of one budget at a time, whatever is configured.
pub const BUDGET_GRANTS_MAX: u32 = 256;
/// Agents of which a budget knows when they were last served.
pub const BUDGET_SERVED_MAX: usize = 256;
/// A grant that nobody reports on ends after this.
pub const BUDGET_HOLD: Duration = Duration::from_secs(600);
/// Each time it has waited this long, a request counts as one class more urgent.
pub const BUDGET_LIFT_AFTER: Duration = Duration::from_secs(30);
/// One agent's word makes everyone pause; never longer than this.
pub const BUDGET_RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Rows one caretaker step may touch, so that no step holds the writer for long.
pub const CARETAKER_STEP: usize = 256;
/// Lanes of one skill that are read at a time while choosing a task.
pub const LANES_PER_LOAD: usize = 32;
/// Waiting tasks of one lane that are read at a time.
pub const QUEUE_PER_LOAD: usize = 128;
/// Tasks of one lane that are looked at while others come first; each of them is free to all after [`OTHERS_FIRST_FOR`].
pub const WITHHELD_PER_LOOK: usize = 16;
/// With fewer known ones than this, a batch begins by reading more. No engine reads fewer at a time.
pub const QUEUE_LOW: usize = 32;

pub const IDEMPOTENCY_FOR: Duration = Duration::from_secs(24 * 3600);
pub const IDEMPOTENCY_ROWS_MAX: u64 = 1_000_000;
pub const IDEMPOTENCY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Past the bound the oldest keys go first, but never one younger than this.
pub const IDEMPOTENCY_FOR_MIN: Duration = Duration::from_secs(3600);
/// Notes of hand writes are read until they are larger than this.
pub const HAND_NOTES_BYTES: usize = 8 * 1024 * 1024;

/// A write-ahead log file longer than this takes no more: somebody keeps it from being moved into the ledger.
pub const LOG_FILE_BYTES_MAX: u64 = 1_000_000_000;
/// Checkpoints that fail for this long are an outage to come; one that is held up for as long is worth a warning.
pub const CHECKPOINT_LATE_AFTER: Duration = Duration::from_secs(10);

/// Agents that one event is for, wherever they are.
pub const EVENT_RECIPIENTS_MAX: usize = 4096;
/// Events that one agent publishes in a minute, unless configured otherwise: each of them goes to all nodes.
pub const PUBLISHED_PER_MINUTE: u32 = 120;
/// The payload of an event, with all its recipients: what a body still holds.
pub const NODE_EVENT_BYTES_MAX: usize = 960 * 1024;
/// The number of an event: what every reader of JSON keeps exactly.
pub const EVENT_SEQ_MAX: u64 = (1 << 53) - 1;
/// Events of one page of an outbox.
pub const OUTBOX_PAGE_MAX: usize = 256;
/// Agents of other nodes that are known here.
pub const FAR_AGENTS_MAX: usize = 100_000;
/// An event between nodes counts for so long unless it says otherwise, and never longer.
pub const DISPATCH_VALID_FOR: Duration = Duration::from_secs(24 * 3600);
pub const DISPATCH_VALID_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Clocks of nodes may differ by this much: an event is taken so long after its end.
pub const DISPATCH_SKEW: Duration = Duration::from_secs(60);
/// How long orders are known after they ended: as long as their event could come again.
pub const ORDERS_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// The wait for an answer, before an event is sent again.
pub const EVENT_ANSWERED_WITHIN: Duration = Duration::from_secs(20);
pub const RESEND_BACKOFF_MAX: Duration = Duration::from_secs(300);
pub const RESENDS_MAX: u32 = 15;
/// Whether an absent node has read what waits for it is looked at no less often; each look is a write.
pub const ABSENT_PAUSE_MAX: Duration = Duration::from_secs(3600);
/// What was accepted has its outcome within this time, unless an estimate says otherwise, and a grace.
pub const OUTCOME_WITHIN: Duration = Duration::from_secs(1800);
pub const OUTCOME_GRACE: Duration = Duration::from_secs(120);
/// Tasks of other nodes that one agent holds, and that wait for each agent that may take them.
pub const ROUTED_HELD_MAX: usize = 6;
pub const ROUTED_WAITING_MAX: u64 = 40;
/// A task of another node is tried again so often.
pub const ROUTED_RETRIES: u32 = 3;
/// A missing event is waited for.
pub const GAP_WITHIN: Duration = Duration::from_secs(30);
/// What a node has not read is kept for it for so long after it last asked.
pub const CURSOR_LEASE_FOR: Duration = Duration::from_secs(300);
/// Capabilities of one node, and versions of one that are remembered: past it the oldest goes.
pub const CAPABILITIES_MAX: usize = 1000;
pub const CAPABILITY_VERSIONS_MAX: usize = 20;
/// The schema that the results of a capability are checked against.
pub const CONTRACT_SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// How long a capability may say that it takes.
pub const CAPABILITY_ETA_SECONDS_MIN: u32 = 30;
pub const CAPABILITY_ETA_SECONDS_MAX: u32 = 86_400;
/// Nodes that stand in for the owner of a capability.
pub const FALLBACK_NODES_MAX: usize = 16;
/// A skill's own check may take so long, and a version that is not published in this time has failed.
pub const SMOKE_WITHIN: Duration = Duration::from_secs(60);
pub const PUBLISHING_WITHIN: Duration = Duration::from_secs(300);
/// A node that was not heard of for so long does not have what it owns any more; others do it.
pub const OWNER_LEASE_FOR: Duration = Duration::from_secs(90);
/// That a node was heard of is written at most this often.
pub const HEARD_EVERY: Duration = Duration::from_secs(30);
/// Capabilities that are granted to one agent.
pub const GRANTS_MAX: usize = 256;
/// An external agent's access token, its refresh tokens, and a token for one context last between these.
pub const ACCESS_FOR_MIN: Duration = Duration::from_secs(5 * 60);
pub const ACCESS_FOR_MAX: Duration = Duration::from_secs(15 * 60);
pub const REFRESH_FOR_MIN: Duration = Duration::from_secs(24 * 3600);
pub const REFRESH_FOR_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
pub const CONTEXT_FOR_MIN: Duration = Duration::from_secs(60);
pub const CONTEXT_FOR_MAX: Duration = Duration::from_secs(5 * 60);
/// Sessions of external agents, all together and of one.
pub const EXTERNAL_SESSIONS_MAX: usize = 100_000;
pub const SESSIONS_PER_AGENT_MAX: usize = 64;
/// Addresses and networks that an invitation may name.
pub const ORIGINS_MAX: usize = 16;
/// A proof of possession counts for so long, before and after its time.
pub const PROOF_WINDOW: Duration = Duration::from_secs(60);
/// A body of an external agent, and a token or a proof.
pub const EXTERNAL_BODY_BYTES_MAX: usize = 256 * 1024;
pub const JWT_BYTES_MAX: usize = 4 * 1024;
/// What is known of who did what, and of sessions that ended.
pub const AUDIT_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Refusals that are written down in a minute; more are counted.
pub const AUDITED_REFUSALS_PER_MINUTE: u32 = 60;
/// Entries that one look at the audit goes through.
pub const AUDIT_SCAN_MAX: usize = 20_000;
/// Agents that one capability's tasks are given to.
pub const ELIGIBLE_MAX: usize = 256;
/// A capability's id, which is a skill of those who have it.
pub const CAPABILITY_ID_BYTES_MAX: usize = SKILL_BYTES_MAX;
/// Agents of one node that are asked in one task to install a skill, and until when.
pub const SKILL_TARGETS_MAX: usize = 1000;
pub const SKILL_INSTALLED_WITHIN: Duration = Duration::from_secs(7200);
/// Items for review that are open; past it the oldest is resolved by the hub. Each names so many samples.
pub const REVIEWS_OPEN_MAX: usize = 1000;
pub const REVIEW_SAMPLES_MAX: usize = 20;
pub const RESOLVED_REVIEWS_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// So many tasks that go nowhere within this time, and somebody should look at the capability.
pub const UNROUTED_TIMES: usize = 3;
pub const UNROUTED_WITHIN: Duration = Duration::from_secs(600);

/// Jobs that are known, finished ones too, and the length of their ids.
pub const JOBS_MAX: u32 = 100_000;
pub const JOB_ID_BYTES_MAX: usize = 100;
pub const JOB_PHASES_MAX: usize = 200;
/// Criteria of success that a spec names.
pub const JOB_CRITERIA_MAX: usize = 200;
/// Cents and minutes that a limit of a job may be at most.
pub const JOB_LIMIT_MAX: u64 = 1_000_000_000_000;
/// Files that one request lists.
pub const JOB_CONTEXT_FILES_MAX: usize = 1000;
/// A prompt and a raw response, each, in the ledger; beyond it their length and hash are kept.
pub const JOB_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// A summary, in characters; an agent that answers in the older shape may say more.
pub const JOB_SUMMARY_CHARS_MAX: usize = 500;
pub const JOB_SUMMARY_CHARS_OLD_MAX: usize = 1000;
/// Interactions of a job in its history file, before the older ones are rotated out of it.
pub const JOB_INTERACTIONS_MAX: usize = 10_000;
/// The history file, before it is rotated.
pub const JOB_HISTORY_BYTES_MAX: u64 = 100 * 1024 * 1024;
/// Of warnings, evidence and what is kept of one response beside its text.
pub const JOB_WARNINGS_MAX: usize = 100;
pub const JOB_EVIDENCE_MAX: usize = 1000;
/// Places of the queue that can be named.
pub const JOB_RANK_MAX: usize = 1000;
/// An error of the call is tried again so often.
pub const JOB_CALL_RETRIES: u32 = 3;
/// The first waits of these, unless configured otherwise.
pub const JOB_NETWORK_WAIT: Duration = Duration::from_secs(1);
pub const JOB_QUOTA_WAIT: Duration = Duration::from_secs(30);
/// Part of a limit, in percent, from which on a person is warned.
pub const JOB_WARN_PERCENT: u64 = 75;
/// What a job may cost, last and repeat unless its spec says otherwise.
pub const JOB_COST_MICROS: u64 = 10_000_000;
pub const JOB_TIME: Duration = Duration::from_secs(3600);
pub const JOB_ITERATIONS: u32 = 50;
/// A finished job is known for so long, in served time.
pub const JOBS_KEPT_FOR: Duration = Duration::from_secs(90 * 24 * 3600);
