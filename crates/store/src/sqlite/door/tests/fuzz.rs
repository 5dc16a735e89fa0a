//! Whatever text the guard lets pass touches nothing private: SQLite itself is asked, on a connection without a guard.
//!
//! The corpus has one text a line, as a JSON string, with `+` before it if the guard is to let it pass.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::super::public::{FUNCTIONS, READABLE};
use super::*;

const CORPUS: &str = include_str!("../../../../corpus/sql_guard.txt");

/// A connection as anybody would open it, that tells what a statement asks for.
struct Bare {
    db: Connection,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Bare {
    fn new(world: &World) -> Self {
        let mut db = Connection::open(world.door.condition.path()).unwrap();
        // What triggers touch is not the statement's own doing.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .unwrap();
        let names = |sql: &str| -> Vec<String> {
            let mut found = db.prepare(sql).unwrap();
            let found = found.query_map([], |row| row.get(0)).unwrap();
            found.map(Result::unwrap).collect()
        };
        let mut there = names("SELECT lower(name) FROM sqlite_master WHERE type = 'table'");
        there.extend(names("SELECT lower(name) FROM pragma_module_list"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        db.authorizer(Some(move |context: AuthContext<'_>| {
            heard
                .lock()
                .unwrap()
                .extend(private(&context.action, &there));
            match context.action {
                // The guard has these answered as done.
                AuthAction::CreateIndex { .. } => Authorization::Ignore,
                _ => Authorization::Allow,
            }
        }))
        .unwrap();
        Bare { db, asked }
    }

    /// What the first statement of a text asks for that is not for everyone.
    fn private(&self, sql: &str) -> Vec<String> {
        self.asked.lock().unwrap().clear();
        let _ = rusqlite::Batch::new(&self.db, sql).next();
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn private(action: &AuthAction<'_>, there: &[String]) -> Option<String> {
    let is_public = |table: &str| {
        let mut names = crate::table::public()
            .map(|table| &table.name)
            .chain(READABLE);
        names.any(|name| name.eq_ignore_ascii_case(table))
    };
    let fine = match action {
        AuthAction::Read {
            table_name,
            column_name,
        } => {
            let name = table_name.to_ascii_lowercase();
            let is_alias =
                column_name.is_empty() && !there.contains(&name) && !name.starts_with("pragma_");
            is_public(table_name) || is_alias
        }
        AuthAction::Insert { table_name } => is_public(table_name),
        AuthAction::Update { table_name, .. } | AuthAction::Delete { table_name } => {
            is_public(table_name)
        }
        AuthAction::Function { function_name } => {
            FUNCTIONS.contains(&function_name.to_ascii_lowercase().as_str())
        }
        AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::DropTable { .. }
        | AuthAction::DropTrigger { .. }
        | AuthAction::DropTempTrigger { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::CreateVtable { .. }
        | AuthAction::AlterTable { .. } => false,
        _ => true,
    };
    (!fine).then(|| format!("{action:?}"))
}

struct Stage {
    session: Session,
    bare: Bare,
    _world: World,
}

fn stage() -> Stage {
    let world = world();
    Stage {
        session: world.door.open().unwrap(),
        bare: Bare::new(&world),
        _world: world,
    }
}

impl Stage {
    /// Whether the guard lets a text pass, and what it must not have.
    fn look(&mut self, sql: &str) -> (bool, Vec<String>) {
        let passes = self.session.describe(sql, plenty().until).is_ok();
        (
            passes,
            if passes {
                self.bare.private(sql)
            } else {
                Vec::new()
            },
        )
    }
}

fn corpus() -> impl Iterator<Item = (bool, String)> {
    CORPUS.lines().map(|line| {
        let (passes, text) = line.split_at(1);
        let text =
            serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{line}: {error}"));
        (passes == "+", text)
    })
}

#[test]
fn the_kept_texts_pass_or_not_as_they_should() {
    let mut stage = stage();
    for (expected, sql) in corpus() {
        let (passes, private) = stage.look(&sql);
        assert_eq!((passes, private), (expected, vec![]), "{sql:?}");
        if !expected {
            // Those are kept because SQLite alone would do it.
            assert_ne!(stage.bare.private(&sql), Vec::<String>::new(), "{sql:?}");
        }
    }
}

#[test]
fn what_the_guard_lets_pass_touches_nothing_private() {
    let stage = std::cell::RefCell::new(stage());
    let kept: Vec<String> = corpus().map(|(_, sql)| sql).collect();
    let config = Config {
        cases: 4096,
        failure_persistence: None,
        ..Config::default()
    };
    let choices = prop::collection::vec(any::<u32>(), 1..64);
    let texts = choices.prop_map(move |choices| {
        let mut maker = Maker {
            choices: &choices,
            at: 0,
        };
        maker.text(&kept)
    });
    let law = TestRunner::new(config).run(&texts, |sql| {
        let (_, private) = stage.borrow_mut().look(&sql);
        match private.is_empty() {
            true => Ok(()),
            false => Err(TestCaseError::fail(format!("{private:?}"))),
        }
    });
    law.unwrap_or_else(|error| panic!("add it to the corpus: {error}"));
}

/// Makes texts of choices; fewer of them make shorter ones.
struct Maker<'a> {
    choices: &'a [u32],
    at: usize,
}

#[rustfmt::skip]
const TABLE: &[&str] = &[
    "tasks", "agents", "swarm_metadata", "migrations", "sb_token", "sb_hand", "sb_secret", "sqlite_master",
    "sqlite_temp_master", "dbstat", "pragma_database_list", "pragma_table_info('tasks')", "json_each('[1]')",
    "json_tree('[1]') AS sb_hand",
];
#[rustfmt::skip]
const ALIAS: &[&str] = &[
    "x", "sb_x", "sb_", "sb_tasks_insert", "sb_tasks_update_guard", "sb_steward_status", "SB_TASKS_INSERT", "tasks",
    "sb_token", "tasks_updated_at", "sb_\u{feff}tasks_insert", "\u{feff}", "main",
];
#[rustfmt::skip]
const CALL: &[&str] = &[
    "lower('A')", "glob('a', 'a')", "'a' GLOB 'a'", "'a' LIKE 'a'", "unhex('00')", "json_patch('{}', '{}')", "sb_is_steward()",
    "load_extension('x')", "count(*)", "row_number() OVER (ORDER BY glob('a', 'a'))", "sum(1) FILTER (WHERE glob('a', 'a'))",
    "likely(1)", "sqlite_log(1, 'x')", "'[1]' -> 0", "max(1, 2)", "\"lower\"('A')", "[glob]('a', 'a')", "fts3_tokenizer('x')",
];
/// Between two words: what SQLite skips, what it does not, and what other programs would skip.
#[rustfmt::skip]
const GAP: &[&str] = &[
    " ", " ", " ", "\t", "\n", "\r", "\u{c}", "\u{feff}", " \u{feff}", "\u{feff} ", "/**/", "/*x*/\u{feff}", "-- x\n", "\u{b}", "\u{a0}",
    "\u{200b}", "\u{2060}", "\u{2028}", "\u{fffe}", "\0", ";", "\u{85}",
];

impl Maker<'_> {
    fn choose(&mut self, of: usize) -> usize {
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::try_from(choice).unwrap_or(0) % of
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.choose(from.len())]
    }

    fn text(&mut self, kept: &[String]) -> String {
        let mut text = match self.choose(4) {
            0 => kept[self.choose(kept.len())].clone(),
            _ => self.statement(),
        };
        for _ in 0..self.choose(4) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let Some(at) = places.get(self.choose(places.len().max(1))).copied() else {
                break;
            };
            match self.choose(3) {
                0 => text.insert_str(at, self.pick(GAP)),
                1 => drop(text.remove(at)),
                _ => text.insert_str(
                    at,
                    self.pick(&[
                        "\"", "'", "[", "]", "`", "(", ")", "sb_", ".", "$", "?1", "--",
                    ]),
                ),
            }
        }
        text
    }

    fn statement(&mut self) -> String {
        let [select, table, alias] = [self.select(3), self.table(), self.name(ALIAS)];
        let written = match self.choose(13) {
            0..=3 => select,
            4 => format!("INSERT INTO swarm_metadata(key, value) {select}"),
            5 => format!("INSERT INTO {table} DEFAULT VALUES"),
            6 => format!("UPDATE swarm_metadata SET value = ({select}) FROM ({select}) AS {alias}"),
            7 => format!("UPDATE {table} SET id = 1"),
            8 => format!("DELETE FROM {table} WHERE EXISTS ({select}) RETURNING ({select})"),
            9 => format!(
                "INSERT INTO swarm_metadata(key) VALUES (1) ON CONFLICT(key) DO UPDATE SET value = ({select})"
            ),
            10 => format!("CREATE TABLE IF NOT EXISTS {table} AS {select}"),
            11 => format!("CREATE INDEX IF NOT EXISTS idx_x ON {table}(id)"),
            _ => format!("EXPLAIN {select}"),
        };
        // Some of the spaces are something else.
        let words: Vec<&str> = written.split(' ').collect();
        let mut text = String::new();
        for (at, word) in words.iter().enumerate() {
            let gap = if self.choose(6) == 0 {
                self.pick(GAP)
            } else {
                " "
            };
            text.push_str(if at == 0 && gap == " " { "" } else { gap });
            text.push_str(word);
        }
        text
    }

    fn select(&mut self, depth: usize) -> String {
        let what = if self.choose(2) == 0 {
            "*".to_owned()
        } else {
            self.pick(CALL).to_owned()
        };
        if depth == 0 {
            return format!("SELECT {what} FROM {}", self.table());
        }
        let (alias, inner) = (self.name(ALIAS), self.select(depth - 1));
        match self.choose(8) {
            0 => format!("SELECT {what} FROM {}", self.table()),
            1 => format!("WITH {alias} AS ({inner}) SELECT {what} FROM {alias}"),
            2 => format!(
                "WITH {alias} AS MATERIALIZED ({inner}) SELECT {what} FROM {alias}, {alias} AS y"
            ),
            3 => format!("SELECT {what} FROM ({inner}) AS {alias}"),
            4 => format!("SELECT ({inner}), {what} FROM {} AS {alias}", self.table()),
            5 => format!("{inner} UNION ALL {}", self.select(depth - 1)),
            6 => format!(
                "SELECT {what} FROM {} JOIN ({inner}) {alias} ON EXISTS ({inner})",
                self.table()
            ),
            _ => format!(
                "WITH RECURSIVE {alias}(n) AS (SELECT 1 UNION SELECT n + 1 FROM {alias} WHERE n IN ({inner})) SELECT * FROM {alias}"
            ),
        }
    }

    fn table(&mut self) -> String {
        self.name(TABLE)
    }

    /// A name in some of the ways in which SQLite lets it be written.
    fn name(&mut self, of: &[&str]) -> String {
        let name = self.pick(of);
        if name.contains(['(', ' ']) {
            return name.to_owned();
        }
        match self.choose(8) {
            0 => format!("\"{name}\""),
            1 => format!("[{name}]"),
            2 => format!("`{name}`"),
            3 => format!("\u{feff}{name}"),
            4 => name.to_ascii_uppercase(),
            5 => format!("'{name}'"),
            _ => name.to_owned(),
        }
    }
}
