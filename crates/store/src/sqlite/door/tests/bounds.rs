//! What one instruction may cost: nothing can be stopped in the middle of SQLite's own.

use super::*;

fn with_args(session: &mut Session, sql: &str, args: &[Value]) -> Result<Rows, Refused> {
    let query = Query {
        sql,
        args,
        want_rows: true,
        ..Query::default()
    };
    session.execute(&query, &plenty())
}

fn text(bytes: usize) -> Value {
    Value::Text("a".repeat(bytes))
}

/// So many calls in a row, without a loop around them.
fn list(calls: usize, call: &str) -> String {
    vec![call; calls].join(", ")
}

#[test]
fn a_function_stops_at_the_deadline() {
    let world = world();
    let mut session = world.door.open().unwrap();
    for call in [
        "?1 LIKE '%b'",
        "?1 LIKE '%b' ESCAPE 'c'",
        "instr(?1, 'b')",
        "replace(?1, 'b', '')",
        "trim(?1, 'b')",
        "ltrim(?1)",
        "rtrim(?1)",
    ] {
        let sql = format!("SELECT {call}");
        let query = Query {
            sql: &sql,
            args: &[text(100_000)],
            ..Query::default()
        };
        session.execute(&query, &plenty()).unwrap();
        let late = Allowance {
            until: Instant::now(),
            ..plenty()
        };
        let refused = session.execute(&query, &late).expect_err(&sql);
        assert_eq!(refused.code, "SQLITE_INTERRUPT", "{sql}: {refused}");
        assert!(refused.message.contains("write for 1 s"), "{refused}");
    }
}

#[test]
fn long_patterns_in_a_row_give_way_to_the_hub() {
    let mut world = world();
    let mut session = world.door.open().unwrap();
    ok(&mut session, "BEGIN IMMEDIATE");
    let sql = format!(
        "SELECT 2 IN ({})",
        list(999, "?1 LIKE '%aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'")
    );
    std::thread::scope(|threads| {
        let hub = threads.spawn(|| world.engine.begin(&mut Slice::default()).map(drop));
        let refused = with_args(&mut session, &sql, &[text(30_000)]).unwrap_err();
        assert_eq!(refused.code, "SQLITE_BUSY", "{refused}");
        hub.join().unwrap().unwrap();
    });
    assert!(!session.has_turn());
}

#[test]
fn one_pattern_takes_so_many_steps_and_no_more() {
    let world = world();
    let mut session = world.door.open().unwrap();
    for (bytes, fits) in [
        (LIKE_STEPS_MAX - 1, true),
        (LIKE_STEPS_MAX, true),
        (LIKE_STEPS_MAX + 1, false),
    ] {
        let ran = with_args(&mut session, "SELECT ?1 LIKE '%'", &[text(bytes)]);
        assert!(ran.is_ok(), "the rest is not looked at");
        let ran = with_args(&mut session, "SELECT ?1 LIKE '%b'", &[text(bytes)]);
        assert_eq!(ran.is_ok(), fits, "{bytes}: {ran:?}");
    }
    for (bytes, fits) in [
        (LIKE_PATTERN_BYTES_MAX - 1, true),
        (LIKE_PATTERN_BYTES_MAX, true),
        (LIKE_PATTERN_BYTES_MAX + 1, false),
    ] {
        let ran = with_args(&mut session, "SELECT 'b' LIKE ?1", &[text(bytes)]);
        assert_eq!(ran.is_ok(), fits, "{bytes}: {ran:?}");
    }
}

#[test]
fn many_calls_must_be_of_small_values() {
    let world = world();
    let mut session = world.door.open().unwrap();
    let most = FUNCTIONS_BYTES_MAX / VALUE_BYTES_MAX;
    let large = [text(VALUE_BYTES_MAX)];
    for (calls, fits) in [(most - 1, true), (most, true), (most + 1, false)] {
        for sql in [
            format!("SELECT length(?1) IN ({})", list(calls - 1, "abs(1)")),
            format!("SELECT ?1 IN ({})", list(calls, "'' || ''")),
        ] {
            let ran = with_args(&mut session, &sql, &large);
            assert_eq!(ran.is_ok(), fits, "{sql}: {ran:?}");
            if let Err(refused) = ran {
                assert_eq!(refused.code, "SQLITE_TOOBIG", "{refused}");
            }
        }
    }
    // A list that would take gigabytes before anybody could look.
    let sql = format!("SELECT 'x' IN ({})", list(4000, "?1 || 1"));
    let refused = with_args(&mut session, &sql, &[text(1_000_000)]).unwrap_err();
    assert_eq!(refused.code, "SQLITE_TOOBIG", "{refused}");
    with_args(&mut session, "SELECT length(?1)", &large).expect("the next one has all its room");
}
