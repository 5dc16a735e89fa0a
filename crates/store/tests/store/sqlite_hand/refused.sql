-- Hand writes that no rule allows. Each line is refused with a message that has the words of the comment above it.
-- The ledger is that of stage.rs.

-- tasks.status of a new task: one of pending, ready, blocked
INSERT INTO tasks(id, title, status) VALUES ('new', 'new', 'claimed');
INSERT INTO tasks(id, title, status) VALUES ('new', 'new', 'completed');
INSERT INTO tasks(id, title, status) VALUES ('new', 'new', 'READY');
INSERT INTO tasks(id, title, status) VALUES ('new', 'new', x'7265616479');

-- tasks.priority: one of critical, high, medium, low
INSERT INTO tasks(id, title, priority) VALUES ('new', 'new', 'urgent');
INSERT INTO tasks(id, title, priority) VALUES ('new', 'new', 1);

-- tasks.type: one of code, test, browser_test, documentation, review, custom, skill_distribution
INSERT INTO tasks(id, title, type) VALUES ('new', 'new', 'chore');

-- a new task must be unassigned
INSERT INTO tasks(id, title, assigned_agent) VALUES ('new', 'new', 'ann');

-- tasks.required_skills: a JSON array of at most 64 strings of 1 to 64 bytes
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', 'rust');
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', '{"a":1}');
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', '[1]');
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', '[""]');
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', '["a" ,]');
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', json_array('a' || char(10)));
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', json_array('a' || char(127)));
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', '["a\u0000"]');
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', json_array(printf('%.65c', 'x')));
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', '["a"' || printf('%.9999999c', ' ') || ']');
INSERT INTO tasks(id, title, required_skills) VALUES ('new', 'new', x'5b5d');

-- contains a task that does not exist; insert that one first
INSERT INTO tasks(id, title, dependencies) VALUES ('new', 'new', '["nobody-made-this"]');
INSERT INTO tasks(id, title, dependencies) VALUES ('new', 'new', '["new"]');

-- tasks.files: a JSON array of at most 1000 strings
INSERT INTO tasks(id, title, files) VALUES ('new', 'new', 'src');

-- tasks.audience: a JSON array of at most 64 strings
INSERT INTO tasks(id, title, audience) VALUES ('new', 'new', '[null]');

-- tasks.max_retries: a whole number from 0 to 100
INSERT INTO tasks(id, title, max_retries) VALUES ('new', 'new', -1);
INSERT INTO tasks(id, title, max_retries) VALUES ('new', 'new', 101);
INSERT INTO tasks(id, title, max_retries) VALUES ('new', 'new', 'many');

-- tasks.estimated_minutes: a whole number from 0 to 100000, or NULL
INSERT INTO tasks(id, title, estimated_minutes) VALUES ('new', 'new', 1.5);
INSERT INTO tasks(id, title, estimated_minutes) VALUES ('new', 'new', 9223372036854775807);

-- tasks.description: text of at most 262144 bytes
INSERT INTO tasks(id, title, description) VALUES ('new', 'new', x'00');
INSERT INTO tasks(id, title, description) VALUES ('new', 'new', printf('%.262145c', 'x'));

-- tasks.branch: text of at most 1024 bytes, or NULL
INSERT INTO tasks(id, title, branch) VALUES ('new', 'new', x'00');

-- tasks.on_dependency_failure: one of block, fail
INSERT INTO tasks(id, title, on_dependency_failure) VALUES ('new', 'new', 'ignore');

-- a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', 'yesterday');
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', '2026-02-30 10:00:00');
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', '2026-01-31T24:00:00Z');
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', '2026-01-31T10:00:00 ');
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', '2026-01-31T10:00:00.Z');
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', '2026-01-31');
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', 1700000000);
INSERT INTO tasks(id, title, created_at) VALUES ('new', 'new', '2026-01-31 10:00:00' || char(0));

-- is set by the hub; omit it
INSERT INTO tasks(id, title, when_spent) VALUES ('new', 'new', 'never');
INSERT INTO tasks(id, title, rev) VALUES ('new', 'new', 1);
INSERT INTO tasks(id, title, epoch) VALUES ('new', 'new', 1);
INSERT INTO tasks(id, title, lane) VALUES ('new', 'new', 1);
INSERT INTO tasks(id, title, state_at) VALUES ('new', 'new', 1);
INSERT INTO tasks(id, title, dependants) VALUES ('new', 'new', 1);
INSERT INTO tasks(id, title, corr_id) VALUES ('new', 'new', 'x');

-- tasks.number is set by the hub
INSERT INTO tasks(id, title, number) VALUES ('new', 'new', 7);
INSERT INTO tasks(id, title, number) VALUES ('new', 'new', -7);

-- text of 1 to 128 bytes without spaces or control characters
INSERT INTO tasks(id, title) VALUES ('', 't');
INSERT INTO tasks(id, title) VALUES ('a b', 't');
INSERT INTO tasks(id, title) VALUES ('a' || char(0) || 'b', 't');
INSERT INTO tasks(id, title) VALUES (x'61', 't');
INSERT INTO tasks(id, title) VALUES (printf('%.129c', 'x'), 't');

-- tasks.title: text of 1 to 1024 bytes
INSERT INTO tasks(id, title) VALUES ('new', '');
INSERT INTO tasks(id, title) VALUES ('new', '   ');
INSERT INTO tasks(id, title) VALUES ('new', printf('%.1025c', 'x'));
INSERT INTO tasks(id, title) VALUES ('new', 'x' || printf('%.1025c', ' '));

-- tasks: REPLACE would delete the history of this task; use UPDATE
INSERT OR REPLACE INTO tasks(id, title) VALUES ('ready', 't');

-- tasks.number is set by the hub
REPLACE INTO tasks(number, id, title) VALUES (1, 'new', 't');

-- UNIQUE constraint failed: tasks.id
INSERT INTO tasks(id, title) VALUES ('ready', 't');

-- no such agent is registered; insert it into agents first
UPDATE tasks SET status = 'claimed', assigned_agent = 'nobody' WHERE id = 'ready';
UPDATE tasks SET status = 'claimed', assigned_agent = 'zoe' WHERE id = 'ready';

-- tasks.assigned_agent: a claim must name its agent
UPDATE tasks SET status = 'claimed' WHERE id = 'ready';

-- tasks.assigned_agent: an agent can claim only what is ready, and finish only what it has claimed
UPDATE tasks SET status = 'in_progress', assigned_agent = 'ann' WHERE id = 'blocked';
UPDATE tasks SET status = 'completed', assigned_agent = 'ann' WHERE id = 'ready';
UPDATE tasks SET status = 'failed', assigned_agent = 'ann' WHERE id = 'ready';

-- another agent holds this task
UPDATE tasks SET assigned_agent = 'bob' WHERE id = 'claimed';
UPDATE tasks SET status = 'in_progress', assigned_agent = 'bob' WHERE id = 'claimed';
UPDATE tasks SET status = 'completed', assigned_agent = 'bob' WHERE id = 'in_progress';
UPDATE tasks SET assigned_agent = NULL WHERE id = 'in_progress';

-- tasks.status: this change is not allowed
UPDATE tasks SET status = 'done' WHERE id = 'claimed';
UPDATE tasks SET status = NULL WHERE id = 'claimed';

-- is set by the hub
UPDATE tasks SET id = 'other' WHERE id = 'ready';
UPDATE tasks SET number = -9 WHERE id = 'ready';
UPDATE OR REPLACE tasks SET number = 1 WHERE id = 'claimed';
UPDATE tasks SET rev = rev + 1 WHERE id = 'ready';
UPDATE tasks SET lane = NULL WHERE id = 'ready';
UPDATE tasks SET epoch = epoch + 1 WHERE id = 'claimed';
UPDATE tasks SET status = 'claimed', assigned_agent = 'ann', epoch = epoch + 2 WHERE id = 'ready';
UPDATE tasks SET dependencies = '[]' WHERE id = 'blocked';
UPDATE tasks SET created_at = '2020-01-01 00:00:00' WHERE id = 'ready';
UPDATE tasks SET progress = '{}' WHERE id = 'in_progress';

-- a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59
UPDATE tasks SET updated_at = '2026-02-30 10:00:00' WHERE id = 'ready';
UPDATE tasks SET claimed_at = 'now' WHERE id = 'claimed';

-- tasks.result: text of at most 262144 bytes, or NULL
UPDATE tasks SET status = 'completed', result = printf('%.262145c', 'x') WHERE id = 'claimed';

-- tasks.last_error: text of at most 16384 bytes, or NULL
UPDATE tasks SET status = 'failed', last_error = printf('%.16385c', 'x') WHERE id = 'claimed';

-- tasks: finished tasks cannot be deleted
DELETE FROM tasks WHERE id = 'completed';
DELETE FROM tasks WHERE id = 'failed';
DELETE FROM tasks;

-- text of 1 to 128 bytes without spaces or control characters
INSERT INTO agents(id, name) VALUES ('a' || char(9), 's');

-- agents.id: this id is reserved
INSERT INTO agents(id, name) VALUES ('steward', 's');
INSERT INTO agents(id, name) VALUES ('switchboard', 's');

-- UNIQUE constraint failed: agents.id
INSERT INTO agents(id, name) VALUES ('ann', 'ann');

-- agents.name: text of 1 to 256 bytes
INSERT INTO agents(id, name) VALUES ('new', '');

-- agents.type: one of claude-code, codex, gemini, browser, custom
INSERT INTO agents(id, name, type) VALUES ('new', 'n', 'robot');

-- agents.status: one of idle, busy, error, offline, shutting_down
INSERT INTO agents(id, name, status) VALUES ('new', 'n', 'asleep');

-- agents.skills: a JSON array
INSERT INTO agents(id, name, skills) VALUES ('new', 'n', 'rust,sql');

-- agents.max_task_minutes: a whole number from 0 to 100000
INSERT INTO agents(id, name, max_task_minutes) VALUES ('new', 'n', 'long');

-- agents.can_run_tests: 0 or 1
INSERT INTO agents(id, name, can_run_tests) VALUES ('new', 'n', 2);

-- agents.pid: a whole number from 0 to 4294967295, or NULL
INSERT INTO agents(id, name, pid) VALUES ('new', 'n', -4);

-- agents.machine_id: text of at most 256 bytes, or NULL
INSERT INTO agents(id, name, machine_id) VALUES ('new', 'n', x'00');

-- agents.machine_hostname: text of at most 256 bytes, or NULL
INSERT INTO agents(id, name, machine_hostname) VALUES ('new', 'n', printf('%.257c', 'x'));

-- is set by the hub
INSERT INTO agents(id, name, inbox) VALUES ('new', 'n', 3);
INSERT OR REPLACE INTO agents(id, name, presence) VALUES ('ann', 'n', 'gone');
UPDATE agents SET id = 'other' WHERE id = 'ann';
UPDATE agents SET holds = '[]' WHERE id = 'ann';
UPDATE agents SET seen_at = 0 WHERE id = 'ann';
UPDATE agents SET key_generation = 9 WHERE id = 'ann';

-- agents.current_task_progress: a whole number from 0 to 100, or NULL
UPDATE agents SET current_task_progress = 101 WHERE id = 'ann';

-- a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59
UPDATE agents SET last_heartbeat = 'now' WHERE id = 'ann';

-- agents.heartbeat_count: a whole number
UPDATE agents SET heartbeat_count = -1 WHERE id = 'ann';

-- no agent with this id exists; NULL sends to everyone
INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('new', 'custom', 'ann', 'nobody');

-- messages.type: custom, or words joined by dots
INSERT INTO messages(id, type, from_agent) VALUES ('new', 'shout', 'ann');
INSERT INTO messages(id, type, from_agent) VALUES ('new', 'a.b' || char(10), 'ann');

-- text of 1 to 128 bytes without spaces or control characters
INSERT INTO messages(id, type, from_agent) VALUES ('new', 'custom', '');
INSERT INTO messages(id, type, from_agent) VALUES ('n w', 'custom', 'ann');

-- messages.payload: text of at most 262144 bytes, or NULL
INSERT INTO messages(id, type, from_agent, payload) VALUES ('new', 'custom', 'ann', x'7b7d');
INSERT INTO messages(id, type, from_agent, payload) VALUES ('new', 'custom', 'ann', printf('%.262145c', '1'));

-- messages.ack_required: 0 or 1
INSERT INTO messages(id, type, from_agent, ack_required) VALUES ('new', 'custom', 'ann', 'yes');

-- a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59
INSERT INTO messages(id, type, from_agent, expires_at) VALUES ('new', 'custom', 'ann', 'soon');

-- a new message must be neither delivered nor acknowledged
INSERT INTO messages(id, type, from_agent, delivered_at) VALUES ('new', 'custom', 'ann', CURRENT_TIMESTAMP);

-- is set by the hub; omit it
INSERT INTO messages(id, type, from_agent, copy_of) VALUES ('new', 'custom', 'ann', 1);
INSERT INTO messages(number, id, type, from_agent) VALUES (9, 'new', 'custom', 'ann');

-- messages: a sent message cannot be replaced
REPLACE INTO messages(id, type, from_agent) VALUES ('to-bob', 'custom', 'ann');

-- is set by the hub; do not change it
UPDATE messages SET payload = '2' WHERE id = 'to-bob';
UPDATE messages SET to_agent = 'ann' WHERE id = 'to-bob';
UPDATE messages SET number = -5 WHERE id = 'to-bob';

-- only the recipient may acknowledge a message
UPDATE messages SET acknowledged_by = 'ann', acknowledged_at = CURRENT_TIMESTAMP WHERE id = 'to-bob';

-- a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59
UPDATE messages SET delivered_at = 'read' WHERE id = 'to-bob';

-- quality_snapshots.type_errors: a whole number
INSERT INTO quality_snapshots(id, type_errors) VALUES ('q', -1);

-- quality_snapshots.task_id: text of at most 128 bytes, or NULL
INSERT INTO quality_snapshots(id, task_id) VALUES ('q', x'00');

-- quality_snapshots.test_coverage: a number from 0 to 100, or NULL
INSERT INTO quality_snapshots(id, test_coverage) VALUES ('q', 'full');
INSERT INTO quality_snapshots(id, test_coverage) VALUES ('q', 100.5);

-- quality_baseline.build_success: 0 or 1
INSERT INTO quality_baseline(id, build_success) VALUES (1, 'yes');

-- quality_baseline.lint_errors: a whole number
INSERT INTO quality_baseline(id, lint_errors) VALUES (1, 1.5);

-- CHECK constraint failed
INSERT INTO quality_baseline(id) VALUES (2);

-- leases.file_path: text of 1 to 1024 bytes without control characters
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('a' || char(0), 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('a' || char(10), 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES (x'61', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES (printf('%.1025c', 'x'), 'bob', datetime('now', '+10 minutes'));

-- leases.file_path: it has too many segments
INSERT INTO leases(file_path, agent_id, expires_at) VALUES (replace(printf('%.65c', 'x'), 'x', 'x/') || 'x', 'bob', datetime('now', '+10 minutes'));

-- leases.file_path: it leads outside the project; use a path inside it
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('/etc/passwd', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('..', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src\..\../b.rs', 'bob', datetime('now', '+10 minutes'));

-- leases.file_path: a lease of another agent covers this path
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('.', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('./src', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src//a.rs', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src/', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('lib/../src/a.rs', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src\a.rs', 'bob', datetime('now', '+10 minutes'));

-- UNIQUE constraint failed: leases.file_path
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src/a.rs', 'bob', datetime('now', '+10 minutes'));

-- a lease of another agent covers this path
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src', 'bob', datetime('now', '+10 minutes'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src/a.rs/deeper', 'bob', datetime('now', '+10 minutes'));

-- leases.agent_id: no such agent is registered
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('b', 'nobody', datetime('now', '+1 hour'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('b', 'zoe', datetime('now', '+1 hour'));

-- leases.task_id: this agent does not hold that task
INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('b', 'bob', 'claimed', datetime('now', '+1 hour'));

-- leases.expires_at: must be in the future
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('b', 'bob', datetime('now', '-1 second'));

-- a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('b', 'bob', 'later');
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('b', 'bob', 9999999999);

-- leases.fencing is set by the hub
INSERT INTO leases(file_path, agent_id, expires_at, fencing) VALUES ('b', 'bob', datetime('now', '+1 hour'), 4);

-- leases.renewed_count: a whole number
INSERT INTO leases(file_path, agent_id, expires_at, renewed_count) VALUES ('b', 'bob', datetime('now', '+1 hour'), -4);

-- another agent holds this lease, and it has not expired
REPLACE INTO leases(file_path, agent_id, expires_at) VALUES ('src/a.rs', 'bob', datetime('now', '+1 hour'));
INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src/a.rs', 'bob', datetime('now', '+1 hour')) ON CONFLICT(file_path) DO UPDATE SET agent_id = excluded.agent_id;
UPDATE leases SET agent_id = 'bob' WHERE file_path = 'src/a.rs';

-- is set by the hub; do not change it
UPDATE leases SET file_path = 'b' WHERE file_path = 'src/a.rs';
UPDATE leases SET fencing = 99 WHERE file_path = 'src/a.rs';
UPDATE leases SET prefix = 'b' WHERE file_path = 'src/a.rs';
UPDATE leases SET prefix = file_path WHERE file_path = 'lib/**/*.rs';
UPDATE leases SET rev = 0 WHERE file_path = 'src/a.rs';

-- leases.task_id: this agent does not hold that task
UPDATE leases SET task_id = 'ready' WHERE file_path = 'src/a.rs';
