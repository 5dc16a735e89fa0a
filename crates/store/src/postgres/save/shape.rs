//! Statements that write many rows at once, made from a table's name and its columns.

/// `INSERT … SELECT` of all rows.
pub(super) fn insert(table: &str, columns: &[&str]) -> String {
    let names = columns.join(", ");
    let values = values(columns);
    format!("INSERT INTO {table}({names}) SELECT {names} FROM {values}")
}

/// The same where a row with these keys is overwritten.
pub(super) fn upsert(table: &str, keys: &[&str], columns: &[&str]) -> String {
    let sets: Vec<String> = columns
        .iter()
        .filter(|column| !keys.contains(column))
        .map(|column| format!("{column} = excluded.{column}"))
        .collect();
    let insert = insert(table, columns);
    let (keys, sets) = (keys.join(", "), sets.join(", "));
    format!("{insert} ON CONFLICT ({keys}) DO UPDATE SET {sets}")
}

/// Overwrites the other columns of the rows that the first `keys` columns name.
pub(super) fn update(table: &str, keys: usize, columns: &[&str]) -> String {
    let (keys, rest) = columns.split_at(keys);
    let sets: Vec<String> = rest
        .iter()
        .map(|column| format!("{column} = v.{column}"))
        .collect();
    let same: Vec<String> = keys
        .iter()
        .map(|key| format!("t.{key} = v.{key}"))
        .collect();
    format!(
        "UPDATE {table} t SET {} FROM {} WHERE {}",
        sets.join(", "),
        values(columns),
        same.join(" AND ")
    )
}

fn values(columns: &[&str]) -> String {
    let params: Vec<String> = (1..=columns.len()).map(|at| format!("${at}")).collect();
    format!("unnest({}) AS v({})", params.join(", "), columns.join(", "))
}
