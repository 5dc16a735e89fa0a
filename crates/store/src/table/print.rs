//! Statements that write rows, printed for both dialects.
//!
//! The values of a row come in the order of the groups that are written, and in the order of its columns within each; the
//! key comes last. In that order [`crate::columns`] gives them.

use super::{Groups, Table};

/// Statements that are printed when they are first needed.
macro_rules! statements {
    ($($name:ident = $made:expr;)*) => {
        $(static $name: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| $made);)*
    };
}

pub(crate) use statements;

impl Table {
    /// Columns of groups, then the key.
    fn written(&self, groups: &[Groups]) -> Vec<&'static str> {
        let listed = groups.iter().flat_map(|group| self.names(*group));
        listed.chain(self.key.iter().copied()).collect()
    }

    /// The columns of a group without the key.
    fn names(&self, group: Groups) -> impl Iterator<Item = &'static str> {
        let columns = self.columns.iter();
        let listed = columns.filter(move |column| column.groups & group != 0);
        let names = listed.map(|column| column.name);
        names.filter(|name| !self.key.contains(name))
    }
}

fn each(names: &[&str], print: impl Fn(&str) -> String) -> Vec<String> {
    names.iter().map(|name| print(name)).collect()
}

/// One row at a time.
pub(crate) mod sqlite {
    use super::{Groups, Table, each};

    pub fn insert(table: &Table, groups: &[Groups]) -> String {
        row(table.name, &table.written(groups))
    }

    /// Its number is SQLite's to give.
    pub fn append(table: &Table, group: Groups) -> String {
        row(table.name, &table.names(group).collect::<Vec<_>>())
    }

    /// Where there is a row of this key, these groups of it are overwritten.
    pub fn upsert(table: &Table, groups: &[Groups], over: &[Groups]) -> String {
        let over: Vec<&str> = over.iter().flat_map(|group| table.names(*group)).collect();
        let sets = each(&over, |name| format!("{name} = excluded.{name}"));
        let (insert, key) = (insert(table, groups), table.key.join(", "));
        format!(
            "{insert} ON CONFLICT({key}) DO UPDATE SET {}",
            sets.join(", ")
        )
    }

    pub fn update(table: &Table, groups: &[Groups]) -> String {
        let names = table.written(groups);
        let (sets, key) = names.split_at(names.len() - table.key.len());
        let is = |name: &str| format!("{name} = ?");
        let (sets, key) = (each(sets, is).join(", "), each(key, is).join(" AND "));
        format!("UPDATE {} SET {sets} WHERE {key}", table.name)
    }

    fn row(table: &str, names: &[&str]) -> String {
        let marks = vec!["?"; names.len()];
        format!(
            "INSERT INTO {table}({}) VALUES ({})",
            names.join(", "),
            marks.join(", ")
        )
    }
}

/// Any number of rows at once, as arrays.
pub(crate) mod postgres {
    use super::{Groups, Table, each};

    pub fn insert(table: &Table, groups: &[Groups]) -> String {
        let names = table.written(groups);
        let (list, values) = (names.join(", "), values(&names, ""));
        format!(
            "INSERT INTO {}({list}) SELECT {list} FROM {values}",
            table.name
        )
    }

    /// Numbers go on after the highest.
    pub fn append(table: &Table, group: Groups) -> String {
        let names: Vec<&str> = table.names(group).collect();
        let (name, key, list) = (table.name, table.key.join(", "), names.join(", "));
        format!(
            "INSERT INTO {name}({key}, {list}) SELECT (SELECT coalesce(max({key}), 0) FROM {name}) + i, {list} FROM {}",
            values(&names, ", i")
        )
    }

    /// Where there is a row with the same in these columns, it is overwritten.
    pub fn upsert(table: &Table, same: &str, groups: &[Groups]) -> String {
        let names = table.written(groups);
        let over: Vec<&str> = names
            .into_iter()
            .filter(|name| !same.split(", ").any(|key| key == *name))
            .collect();
        let sets = each(&over, |name| format!("{name} = excluded.{name}"));
        let insert = insert(table, groups);
        format!(
            "{insert} ON CONFLICT ({same}) DO UPDATE SET {}",
            sets.join(", ")
        )
    }

    /// For one row: its columns, each with its parameter.
    pub fn assign(table: &Table, groups: &[Groups], first: usize) -> String {
        let names = groups.iter().flat_map(|group| table.names(*group));
        let sets = (first..)
            .zip(names)
            .map(|(at, name)| format!("{name} = ${at}"));
        sets.collect::<Vec<_>>().join(", ")
    }

    pub fn update(table: &Table, groups: &[Groups]) -> String {
        let names = table.written(groups);
        let (sets, key) = names.split_at(names.len() - table.key.len());
        let sets = each(sets, |name| format!("{name} = v.{name}"));
        let same = each(key, |name| format!("t.{name} = v.{name}"));
        format!(
            "UPDATE {} t SET {} FROM {} WHERE {}",
            table.name,
            sets.join(", "),
            values(&names, ""),
            same.join(" AND ")
        )
    }

    fn values(names: &[&str], more: &str) -> String {
        let params: Vec<String> = (1..=names.len()).map(|at| format!("${at}")).collect();
        let with = if more.is_empty() {
            ""
        } else {
            " WITH ORDINALITY"
        };
        format!(
            "unnest({}){with} AS v({}{more})",
            params.join(", "),
            names.join(", ")
        )
    }
}
