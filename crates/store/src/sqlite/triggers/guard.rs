//! Conditions on single columns, each with the sentence that a client reads when it breaks one.

/// Refuses the write where the condition holds.
pub(super) fn refuse(sentence: &str, condition: &str) -> String {
    let sentence = sentence.replace('\'', "''");
    format!("SELECT RAISE(ABORT, '{sentence}') WHERE {condition};")
}

/// Whether a text has characters up to this code, or a delete.
pub(super) fn control(text: &str, upto: u8) -> String {
    format!(
        "instr({text}, char(0)) > 0 OR {text} GLOB '*[' || char(1) || '-' || char({upto}) || char(127) || ']*'"
    )
}

pub(super) fn id(name: &str, column: &str, is_agent: bool) -> String {
    let max = switchboard_core::limits::ID_BYTES_MAX;
    let reserved = if is_agent {
        format!(
            " OR NEW.{column} IN ('{}', '{}')",
            switchboard_core::id::STEWARD,
            switchboard_core::id::HUB
        )
    } else {
        String::new()
    };
    refuse(
        &format!(
            "{name}: text of 1 to {max} bytes without spaces or control characters, and not reserved"
        ),
        &format!(
            "typeof(NEW.{column}) <> 'text' OR length(CAST(NEW.{column} AS BLOB)) NOT BETWEEN 1 AND {max} OR {}{reserved}",
            control(&format!("NEW.{column}"), 32)
        ),
    )
}

pub(super) fn bytes(name: &str, column: &str, min: usize, max: usize) -> String {
    refuse(
        &format!("{name}: text of {min} to {max} bytes"),
        &format!(
            "typeof(NEW.{column}) <> 'text' OR length(CAST(NEW.{column} AS BLOB)) > {max} OR length(trim(NEW.{column})) < {min}"
        ),
    )
}

pub(super) fn words(name: &str, column: &str, words: &[&str]) -> String {
    let list: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    refuse(
        &format!("{name}: one of {}", words.join(", ")),
        &format!(
            "NEW.{column} IS NULL OR NEW.{column} NOT IN ({})",
            list.join(", ")
        ),
    )
}

/// A JSON array of short texts.
pub(super) fn array(name: &str, column: &str, items: usize, bytes: usize, plain: bool) -> String {
    // With room for quotes, commas and escapes.
    let max = items * (bytes + 16);
    let odd = if plain {
        format!(" OR {}", control("value", 31))
    } else {
        String::new()
    };
    refuse(
        &format!("{name}: a JSON array of at most {items} strings of 1 to {bytes} bytes"),
        &format!(
            "NEW.{column} <> '[]' AND CASE WHEN typeof(NEW.{column}) = 'text' AND length(CAST(NEW.{column} AS BLOB)) <= {max} AND json_valid(NEW.{column}) THEN json_type(NEW.{column}) <> 'array'
      OR json_array_length(NEW.{column}) > {items}
      OR EXISTS (SELECT 1 FROM json_each(NEW.{column}) WHERE type <> 'text' OR length(CAST(value AS BLOB)) NOT BETWEEN 1 AND {bytes}{odd}) ELSE 1 END"
        ),
    )
}

pub(super) fn number(name: &str, column: &str, max: i64, optional: bool) -> String {
    let (null, or) = if optional {
        (format!("NEW.{column} IS NOT NULL AND "), ", or NULL")
    } else {
        (String::new(), "")
    };
    refuse(
        &format!("{name}: a whole number from 0 to {max}{or}"),
        &format!(
            "{null}(typeof(NEW.{column}) <> 'integer' OR NEW.{column} NOT BETWEEN 0 AND {max})"
        ),
    )
}

pub(super) fn flag(name: &str, column: &str) -> String {
    refuse(
        &format!("{name}: 0 or 1"),
        &format!("NEW.{column} IS NULL OR NEW.{column} NOT IN (0, 1)"),
    )
}

/// ISO-8601 with a T, or SQLite's own form: no less than what the hub can read, and no more.
pub(super) fn time(name: &str, column: &str, optional: bool) -> String {
    let (null, or) = if optional {
        (format!("NEW.{column} IS NOT NULL AND "), ", or NULL")
    } else {
        (String::new(), "")
    };
    let new = format!("NEW.{column}");
    // Behind the seconds: a fraction, then Z or an offset.
    let zone = format!(
        "CASE WHEN {new} GLOB '???????????????????.[0-9]*' THEN ltrim(substr({new}, 21), '0123456789') ELSE substr({new}, 20) END"
    );
    refuse(
        &format!("{name}: a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59{or}"),
        &format!(
            "{null}(typeof({new}) <> 'text' OR length(CAST({new} AS BLOB)) > 40 OR instr({new}, char(0)) > 0 OR julianday({new}) IS NULL
      OR date(substr({new}, 1, 10)) IS NOT substr({new}, 1, 10)
      OR {new} NOT GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-5][0-9]*' OR substr({new}, 12, 2) > '23'
      OR NOT ({zone} IN ('', 'Z') OR {zone} GLOB '[+-][0-1][0-9]:[0-5][0-9]'))"
        ),
    )
}
