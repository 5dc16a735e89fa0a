//! Lengths, patterns and ranges of what is sent, for the document: what `jetpack::from_wire` checks, as JSON Schema says it.
//!
//! A length is told in characters, as JSON Schema counts; the hub counts bytes. They are the same for ASCII.

use serde_json::{Map, Value, json};
use switchboard_core::external::AgentScope;
use switchboard_core::job::{JobAction, JobGroup, JobRole, JobState, RunBy};
use switchboard_core::{Event, limits as max};

use crate::jetpack::{SUPPORTED_VERSIONS, from_wire};

/// What may stand in one member or parameter.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    Id,
    /// At most so long.
    Text(usize),
    /// The same, and not blank.
    Filled(usize),
    /// The same, without control characters.
    Line(usize),
    /// The same, but only without NUL.
    Words(usize),
    /// A path or glob of a lease.
    Path,
    /// The type of a message.
    Kind,
    /// An idempotency key.
    Key,
    Version,
    Percent,
    AtLeast(u64),
    Between(u64, u64),
    /// As many items, each of them bounded.
    Items(usize, usize, &'static Bound),
    /// At most so many objects, which have bounds of their own.
    Objects(usize),
    /// Hexadecimal digits.
    Digits(usize, usize),
    /// Where a page begins, in a list whose places are numbers.
    Place,
    /// The same in a list of private rows.
    RecordPlace,
    /// The same in the list of jobs, by their groups.
    JobPlace,
    /// The type of an event.
    Event,
    /// An address without a path.
    Endpoint,
    /// An invite of a node.
    Invite,
    /// A capability's id.
    Capability,
    /// What a node signs only once.
    Nonce,
    /// The hash of a certificate's public key.
    Pin,
    /// A job's id.
    Job,
    /// One of these words.
    Word(&'static [&'static str]),
}

use Bound::{AtLeast, Between, Filled, Id, Items, Line, Percent, Text};

const NOTE: Bound = Text(max::NOTE_BYTES_MAX);
const NAME: Bound = Filled(max::NAME_BYTES_MAX);
const SKILLS: Bound = Items(0, max::SKILLS_MAX, &Line(max::SKILL_BYTES_MAX));
const FILES: Bound = Items(0, max::FILES_MAX, &Text(max::PATH_BYTES_MAX));
const TYPES: Bound = Items(0, max::MESSAGE_TYPES_MAX, &Filled(max::ID_BYTES_MAX));
const MINUTES: Bound = Between(0, max::MINUTES_MAX as u64);
const RETRIES: Bound = Between(0, max::RETRIES_MAX as u64);
const AUDIENCE: Bound = Items(0, max::AUDIENCE_MAX, &Id);
const WAIT: Bound = Between(0, max::WAIT_MAX.as_secs());
const LIMIT: Bound = Between(1, max::PAGE_MAX as u64);

/// Members of what is sent, by type.
#[rustfmt::skip]
pub(super) const MEMBERS: &[(&str, &str, Bound)] = &[
    ("Envelope", "protocolVersion", Bound::Version),
    ("Envelope", "requestId", Bound::Key),
    ("NewAgent", "id", Id),
    ("NewAgent", "name", NAME),
    ("Capabilities", "skills", SKILLS),
    ("Capabilities", "maxTaskMinutes", MINUTES),
    ("Machine", "id", Text(max::NAME_BYTES_MAX)),
    ("Machine", "hostname", Text(max::NAME_BYTES_MAX)),
    ("HeartbeatRequest", "agentId", Id),
    ("HeartbeatTask", "id", Id),
    ("HeartbeatTask", "progress", Percent),
    ("Metrics", "memoryUsedMB", AtLeast(0)),
    ("CommandRequest", "taskId", Id),
    ("CommandRequest", "reason", NOTE),
    ("ClaimRequest", "agentId", Id),
    ("ClaimRequest", "taskId", Id),
    ("ClaimRequest", "wait", WAIT),
    ("ClaimFilter", "skills", SKILLS),
    ("ClaimFilter", "excludeIds", Items(0, max::EXCLUDED_IDS_MAX, &Id)),
    ("ProgressRequest", "agentId", Id),
    ("ProgressRequest", "taskId", Id),
    ("Progress", "percentComplete", Percent),
    ("Progress", "description", NOTE),
    ("Progress", "filesModified", FILES),
    ("CompleteRequest", "agentId", Id),
    ("CompleteRequest", "taskId", Id),
    ("CompleteRequest", "evidence", Bound::Objects(max::EVIDENCE_PER_TASK_MAX)),
    ("Evidence", "command", Filled(max::NOTE_BYTES_MAX)),
    ("Evidence", "commit", Text(max::ID_BYTES_MAX)),
    ("TaskResult", "filesCreated", FILES),
    ("TaskResult", "filesModified", FILES),
    ("TaskResult", "filesDeleted", FILES),
    ("TaskResult", "summary", NOTE),
    ("TaskResult", "learnings", Items(0, max::LEARNINGS_PER_TASK_MAX, &Filled(max::NOTE_BYTES_MAX))),
    ("QualityMetrics", "testCoverage", Percent),
    ("FailRequest", "agentId", Id),
    ("FailRequest", "taskId", Id),
    ("Failure", "message", NOTE),
    ("Failure", "details", Text(max::DETAILS_BYTES_MAX)),
    ("Failure", "suggestedAction", NOTE),
    ("SendMessageRequest", "agentId", Id),
    ("NewMessage", "id", Id),
    ("NewMessage", "type", Bound::Kind),
    ("NewMessage", "expiresIn", AtLeast(1)),
    ("NewMessage", "corrId", Id),
    ("Recipients", "/anyOf/0", Id),
    ("Recipients", "/anyOf/1", Items(1, max::MESSAGE_RECIPIENTS_MAX, &Id)),
    ("ReceiveMessagesRequest", "agentId", Id),
    ("ReceiveMessagesRequest", "since", Id),
    ("ReceiveMessagesRequest", "types", TYPES),
    ("ReceiveMessagesRequest", "limit", AtLeast(1)),
    ("ReceiveMessagesRequest", "wait", WAIT),
    ("AckRequest", "agentId", Id),
    ("OpenGateRequest", "commit", NAME),
    ("SignGateRequest", "agentId", Id),
    ("SignGateRequest", "commit", NAME),
    ("SignGateRequest", "note", NOTE),
    ("AcquireLeaseRequest", "agentId", Id),
    ("AcquireLeaseRequest", "taskId", Id),
    ("AcquireLeaseRequest", "filePath", Bound::Path),
    ("AcquireLeaseRequest", "durationMs", AtLeast(1)),
    ("ExtendLeaseRequest", "agentId", Id),
    ("ExtendLeaseRequest", "filePath", Bound::Path),
    ("ExtendLeaseRequest", "durationMs", AtLeast(1)),
    ("ReleaseLeaseRequest", "agentId", Id),
    ("ReleaseLeaseRequest", "filePath", Bound::Path),
    ("NewTask", "id", Id),
    ("NewTask", "title", Filled(max::TITLE_BYTES_MAX)),
    ("NewTask", "description", Text(max::DESCRIPTION_BYTES_MAX)),
    ("NewTask", "requiredSkills", SKILLS),
    ("NewTask", "dependencies", Items(0, max::DEPENDENCIES_MAX, &Id)),
    ("NewTask", "files", FILES),
    ("NewTask", "estimatedMinutes", MINUTES),
    ("NewTask", "maxRetries", RETRIES),
    ("NewTask", "branch", Text(max::NAME_BYTES_MAX)),
    ("NewTask", "audience", AUDIENCE),
    ("NewTask", "corrId", Id),
    ("PatchTaskRequest", "title", Filled(max::TITLE_BYTES_MAX)),
    ("PatchTaskRequest", "description", Text(max::DESCRIPTION_BYTES_MAX)),
    ("PatchTaskRequest", "requiredSkills", SKILLS),
    ("PatchTaskRequest", "estimatedMinutes", MINUTES),
    ("PatchTaskRequest", "files", FILES),
    ("PatchTaskRequest", "branch", Text(max::NAME_BYTES_MAX)),
    ("PatchTaskRequest", "maxRetries", RETRIES),
    ("PatchTaskRequest", "audience", AUDIENCE),
    ("ReleaseTaskRequest", "agentId", Id),
    ("ReleaseTaskRequest", "reason", NOTE),
    ("SteerTaskRequest", "reason", NOTE),
    ("RejectTaskRequest", "reason", NOTE),
    ("ResolveIncidentRequest", "reason", NOTE),
    ("PauseRequest", "why", NOTE),
    ("PauseRequest", "forSeconds", Between(1, max::PAUSE_FOR_MAX.as_secs())),
    ("ResumeRequest", "why", NOTE),
    ("NewTokenRequest", "name", NAME),
    ("NewTokenRequest", "agentId", Id),
    ("InviteNodeRequest", "ttlSeconds", Between(max::NODE_INVITE_FOR_MIN.as_secs(), max::NODE_INVITE_FOR_MAX.as_secs())),
    ("JoinNodeRequest", "url", Bound::Endpoint),
    ("JoinNodeRequest", "inviteToken", Bound::Invite),
    ("JoinNodeRequest", "endpoint", Bound::Endpoint),
    ("ExchangeRequest", "inviteToken", Text(max::NAME_BYTES_MAX)),
    ("ExchangeRequest", "nodeId", Id),
    ("ExchangeRequest", "nodeProof", Bound::Digits(128, 128)),
    ("ExchangeRequest", "nonce", Bound::Nonce),
    ("ExchangeRequest", "publicKey", Bound::Digits(64, 64)),
    ("ExchangeRequest", "protocolVersion", Text(max::ID_BYTES_MAX)),
    ("ExchangeRequest", "endpoint", Bound::Endpoint),
    ("ExchangeRequest", "certificate", Bound::Pin),
    ("TicketRequest", "nodeId", Id),
    ("TicketRequest", "nonce", Bound::Nonce),
    ("TicketRequest", "proof", Bound::Digits(128, 128)),
    ("InviteAgentRequest", "agentId", Id),
    ("InviteAgentRequest", "scopes", Items(1, AgentScope::ALL.len(), &Text(max::NAME_BYTES_MAX))),
    ("InviteAgentRequest", "ttlSeconds", Between(max::NODE_INVITE_FOR_MIN.as_secs(), max::NODE_INVITE_FOR_MAX.as_secs())),
    ("Constraints", "maxSessions", Between(1, max::SESSIONS_PER_AGENT_MAX as u64)),
    ("Constraints", "origins", Items(0, max::ORIGINS_MAX, &Text(max::NAME_BYTES_MAX))),
    ("AgentExchangeRequest", "inviteToken", Text(max::NAME_BYTES_MAX)),
    ("AgentExchangeRequest", "agentId", Id),
    ("AgentExchangeRequest", "nonce", Bound::Nonce),
    ("AgentExchangeRequest", "clientProof", Bound::Digits(128, 128)),
    ("AgentRefreshRequest", "refreshToken", Text(max::JWT_BYTES_MAX)),
    ("AgentRefreshRequest", "nonce", Bound::Nonce),
    ("InvokeRequest", "nonce", Bound::Nonce),
    ("InvokeRequest", "contextId", Id),
    ("ContextTokenRequest", "contextId", Id),
    ("ContextTokenRequest", "scopes", Items(1, AgentScope::ALL.len(), &Text(max::NAME_BYTES_MAX))),
    ("ContextTokenRequest", "ttlSeconds", Between(max::CONTEXT_FOR_MIN.as_secs(), max::CONTEXT_FOR_MAX.as_secs())),
    ("ClaimStatusRequest", "agentId", Id),
    ("ResetCursorRequest", "after", Between(0, max::EVENT_SEQ_MAX)),
    ("RevokeSessionsRequest", "sessionId", Id),
    ("RevokeSessionsRequest", "agentId", Id),
    ("CapabilityRecord", "capabilityId", Bound::Capability),
    ("CapabilityRecord", "name", NAME),
    ("CapabilityRecord", "version", Filled(max::ID_BYTES_MAX)),
    ("CapabilityRecord", "ownerAgentId", Id),
    ("CapabilityRecord", "ownerNodeId", Id),
    ("CapabilityRecord", "contractSchemaRef", Id),
    ("CapabilityRecord", "defaultEtaSeconds", Between(max::CAPABILITY_ETA_SECONDS_MIN as u64, max::CAPABILITY_ETA_SECONDS_MAX as u64)),
    ("CapabilityRecord", "eligibleAgentIds", Items(0, max::ELIGIBLE_MAX - 1, &Id)),
    ("CapabilityRecord", "fallbackNodeIds", Items(0, max::FALLBACK_NODES_MAX, &Id)),
    ("CapabilityRecord", "publishedByAgentId", Id),
    ("SkillRefRecord", "name", Filled(max::ID_BYTES_MAX)),
    ("SkillRefRecord", "version", Filled(max::ID_BYTES_MAX)),
    ("SkillRefRecord", "path", Text(max::PATH_BYTES_MAX)),
    ("ProvenanceRecord", "keyId", Id),
    ("ResolveReviewRequest", "note", NOTE),
    ("PublishRequest", "sourceAgentId", Id),
    ("PublishRequest", "eventId", Id),
    ("PublishRequest", "corrId", Id),
    ("MessagePayload", "toAgents", Items(1, max::EVENT_RECIPIENTS_MAX, &Id)),
    ("TaskCreatePayload", "taskId", Id),
    ("TaskCreatePayload", "title", Filled(max::TITLE_BYTES_MAX)),
    ("TaskCreatePayload", "description", Text(max::DESCRIPTION_BYTES_MAX)),
    ("TaskCreatePayload", "toAgents", AUDIENCE),
    ("TaskCreatePayload", "requiredCapabilities", SKILLS),
    ("TaskCreatePayload", "requesterAgentId", Id),
    ("PushRequest", "epoch", NAME),
    ("PushRequest", "events", Items(0, max::OUTBOX_PAGE_MAX, &Text(usize::MAX))),
    ("BaselineRequest", "/anyOf/0/properties/fromTask", Id),
    ("NewBaseline", "testCoverage", Percent),
    ("JobSpec", "job_id", Bound::Job),
    ("JobSpec", "description", Text(max::DESCRIPTION_BYTES_MAX)),
    ("JobSpec", "objective", Text(max::DESCRIPTION_BYTES_MAX)),
    ("JobSpec", "roles", Items(0, JobRole::ALL.len(), &Bound::Text(max::NAME_BYTES_MAX))),
    ("JobSpec", "phases", Bound::Objects(max::JOB_PHASES_MAX)),
    ("JobSpec", "success_criteria", Items(0, max::JOB_CRITERIA_MAX, &NOTE)),
    ("JobSpec", "cost_threshold", Between(0, max::JOB_LIMIT_MAX)),
    ("JobSpec", "time_threshold_minutes", Between(0, max::JOB_LIMIT_MAX)),
    ("JobSpec", "run", Bound::Word(RunBy::WORDS)),
    ("JobSpec", "repository", Bound::Path),
    ("JobFallback", "max_retries", RETRIES),
    ("JobPhase", "name", NAME),
    ("JobPhase", "description", Text(max::DESCRIPTION_BYTES_MAX)),
    ("JobPhase", "worker_instructions", Text(max::DESCRIPTION_BYTES_MAX)),
    ("CreateJobRequest", "directory", Bound::Path),
    ("ChangeJobRequest", "status", Bound::Word(JobState::WORDS)),
    ("SteerJobRequest", "reason", NOTE),
    ("RejectJobRequest", "guidance", NOTE),
    ("ResubmitJobRequest", "guidance", NOTE),
    ("ResubmitJobRequest", "cost_threshold", Between(0, max::JOB_LIMIT_MAX)),
    ("ResubmitJobRequest", "time_threshold_minutes", Between(0, max::JOB_LIMIT_MAX)),
    ("CorrectJobRequest", "action", Bound::Word(JobAction::WORDS)),
    ("CorrectJobRequest", "reason", NOTE),
    ("ResumeJobRequest", "from", NAME),
    ("BatchRequest", "operations", Items(0, max::BATCH_OPERATIONS_MAX, &Text(usize::MAX))),
];

/// Parameters of queries and paths: of all operations, or of one.
#[rustfmt::skip]
pub(super) const PARAMETERS: &[(&str, &str, Bound)] = &[
    ("", "agentId", Id),
    ("", "assignedAgent", Id),
    ("", "taskId", Id),
    ("", "from", Id),
    ("", "to", Id),
    ("", "since", Id),
    ("", "skill", Line(max::SKILL_BYTES_MAX)),
    ("", "filePath", Bound::Path),
    ("", "under", Bound::Path),
    ("", "protocolVersion", Bound::Version),
    ("", "wait", WAIT),
    ("", "q", Bound::Words(max::TITLE_BYTES_MAX)),
    ("", "nonce", Bound::Digits(from_wire::NONCE_DIGITS.0, from_wire::NONCE_DIGITS.1)),
    ("", "limit", LIMIT),
    ("receiveMessages", "limit", AtLeast(1)),
    ("receiveMessages", "types", TYPES),
    ("receiveMessages", "after", Bound::Place),
    ("events", "types", Items(1, max::EVENT_TYPES_MAX, &Bound::Event)),
    ("listTasks", "after", Bound::Place),
    ("listSnapshots", "after", Bound::Place),
    ("listIncidents", "after", Bound::RecordPlace),
    ("listClaims", "after", Bound::RecordPlace),
    ("listClaims", "by", Id),
    ("", "corrId", Id),
    ("", "sessionId", Id),
    ("listSessions", "after", Bound::RecordPlace),
    ("readAudit", "after", Bound::RecordPlace),
    ("listJobs", "status", Items(1, JobState::ALL.len(), &Bound::Word(JobState::WORDS))),
    ("listJobs", "after", Bound::JobPlace),
    ("jobHistory", "after", Between(0, max::EVENT_SEQ_MAX)),
    ("getJob", "schema_version", Bound::Word(&["1.0", "1.1"])),
    ("readOutbox", "last", Id),
    ("readOutbox", "limit", Between(1, max::OUTBOX_PAGE_MAX as u64)),
];

/// White space and control characters of Unicode, in the words of a pattern.
const BLANKS: &str =
    r"\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000";
const CONTROLS: &str = r"\u0000-\u001f\u007f-\u009f";

impl Bound {
    /// The bound of a parameter.
    pub(super) fn of(operation: &str, name: &str) -> Option<Bound> {
        let of = |of: &str| {
            let mut all = PARAMETERS.iter();
            all.find(|(operation, parameter, _)| *operation == of && *parameter == name)
        };
        of(operation).or_else(|| of("")).map(|(.., bound)| *bound)
    }

    /// Says it in a schema.
    pub(super) fn put(self, schema: &mut Value) {
        if let Items(min, max, each) = self {
            if min > 0 {
                schema["minItems"] = min.into();
            }
            schema["maxItems"] = max.into();
            if schema["items"].is_object() {
                each.put(&mut schema["items"]);
            }
            return;
        }
        if let Bound::Objects(max) = self {
            schema["maxItems"] = max.into();
            return;
        }
        let is_nullable = schema["type"].is_array();
        let schema = schema.as_object_mut().expect("a schema with a type");
        schema.extend(self.keywords(is_nullable));
    }

    fn keywords(self, is_nullable: bool) -> Map<String, Value> {
        let text = |min: usize, max: usize, pattern: String| json!({ "minLength": min, "maxLength": max, "pattern": pattern });
        let keywords = match self {
            Bound::Id => text(1, max::ID_BYTES_MAX, format!("^[^{CONTROLS}{BLANKS}]+$")),
            Bound::Text(max) => json!({ "maxLength": max }),
            Bound::Filled(max) => text(1, max, format!("[^{BLANKS}]")),
            Bound::Line(max) => text(
                1,
                max,
                format!("^[^{CONTROLS}]*[^{CONTROLS}{BLANKS}][^{CONTROLS}]*$"),
            ),
            Bound::Words(max) => text(1, max, format!(r"^[^\u0000]*[^\u0000{BLANKS}][^\u0000]*$")),
            Bound::Path => text(1, max::PATH_BYTES_MAX, format!("^[^{CONTROLS}]+$")),
            Bound::Kind => text(
                1,
                max::ID_BYTES_MAX,
                r"^(custom|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+)$".to_owned(),
            ),
            Bound::Key => text(1, max::IDEMPOTENCY_KEY_BYTES_MAX, "^[!-~]+$".to_owned()),
            Bound::Version => return Bound::Word(SUPPORTED_VERSIONS).keywords(is_nullable),
            Bound::Percent => json!({ "minimum": 0, "maximum": 100 }),
            Bound::AtLeast(min) => json!({ "minimum": min }),
            Bound::Between(min, max) => json!({ "minimum": min, "maximum": max }),
            Bound::Digits(min, max) => text(min, max, "^[0-9A-Fa-f]+$".to_owned()),
            Bound::Place => text(1, from_wire::lists::PLACE_DIGITS_MAX, "^[0-9]+$".to_owned()),
            Bound::RecordPlace => json!({ "pattern": r"^-?[0-9]{1,18}(\..*)?$" }),
            Bound::JobPlace => {
                let groups = JobGroup::WORDS.join("|");
                json!({ "pattern": format!(r"^({groups})\.-?[0-9]{{1,18}}(\..*)?$") })
            }
            Bound::Event => json!({ "enum": Event::KINDS }),
            Bound::Endpoint => text(
                8,
                max::NAME_BYTES_MAX,
                r"^https?://[A-Za-z0-9.\[\]_-][A-Za-z0-9.:\[\]_-]*/?$".to_owned(),
            ),
            Bound::Invite => json!({ "pattern": r"^sbi_[0-9a-f]{64}(\.[0-9a-f]{64})?$" }),
            Bound::Capability => {
                json!({ "pattern": r"^cap\.[a-z0-9][a-z0-9._-]*$", "maxLength": max::CAPABILITY_ID_BYTES_MAX })
            }
            Bound::Nonce => text(1, max::ID_BYTES_MAX, "^[!-{}~]+$".to_owned()),
            Bound::Pin => json!({ "pattern": "^sha256:[0-9a-f]{64}$" }),
            Bound::Job => text(1, max::JOB_ID_BYTES_MAX, "^[A-Za-z0-9_-]+$".to_owned()),
            Bound::Word(known) => {
                let mut words: Vec<Value> = known.iter().map(|word| json!(word)).collect();
                words.extend(is_nullable.then_some(Value::Null));
                json!({ "enum": words })
            }
            Bound::Items(..) | Bound::Objects(_) => {
                unreachable!("a list is bounded where its items are")
            }
        };
        match keywords {
            Value::Object(keywords) => keywords,
            _ => unreachable!("keywords are members"),
        }
    }
}

/// Whole numbers are as large as their type, where nothing else is said.
pub(super) fn whole_numbers(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let largest = match members.get("format").and_then(Value::as_str) {
                Some("uint8") => Some(u8::MAX.into()),
                Some("uint16") => Some(u16::MAX.into()),
                Some("uint32") => Some(u32::MAX.into()),
                Some("uint64") => Some(u64::MAX),
                Some("int32") => Some(i32::MAX.unsigned_abs().into()),
                Some("int64") => Some(i64::MAX.unsigned_abs()),
                Some(_) | None => None,
            };
            if let Some(largest) = largest {
                members.entry("maximum").or_insert(largest.into());
            }
            members.values_mut().for_each(whole_numbers);
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
