//! The hash chain over the event log: each row names the hash of the row before it and its own.
//!
//! A row that was changed, taken out or put in breaks the chain, from the oldest row that is kept on. Rows that builds
//! without a chain wrote have no hash; it begins after them. It guards against accidents, not against somebody who can
//! compute it anew. A hub hashes the rows it writes; where it does not know the row before, PostgreSQL's trigger does.

use aws_lc_rs::digest::{Context, SHA256};

/// Rows that are verified when a hub starts.
pub const ROWS_AT_START: u64 = 1000;

pub type Hash = [u8; 32];

/// One row of the log as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    pub first: i64,
    pub last: i64,
    pub at: i64,
    pub body: &'a [u8],
    pub before: Option<&'a [u8]>,
    pub hash: Option<&'a [u8]>,
}

impl Link<'_> {
    /// What the row's hash must be.
    pub fn expected(&self) -> Hash {
        let mut context = Context::new(&SHA256);
        context.update(self.before.unwrap_or_default());
        for number in [self.first, self.last, self.at] {
            context.update(&number.to_be_bytes());
        }
        context.update(self.body);
        let mut hash = Hash::default();
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }

    /// Whether the row is as it was written; one without a hash says nothing.
    pub fn holds(&self) -> bool {
        self.hash.is_none_or(|hash| hash == self.expected())
    }
}

/// What a walk along the chain found to be sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub rows: u64,
    /// Those among them that were written before there was a chain.
    pub without_hash: u64,
}

/// Follows the rows in their order.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    verified: Verified,
    /// The last event of the row before, and its hash.
    before: Option<(i64, Option<Vec<u8>>)>,
}

impl Walk {
    /// The next row, and whether its own hash holds. An error says where the log is broken, in words.
    pub fn step(&mut self, link: &Link<'_>, holds: bool) -> Result<(), String> {
        let (first, last) = (link.first, link.last);
        if !holds {
            return Err(format!(
                "events {first} to {last} were changed after they were written"
            ));
        }
        if let Some((last, hash)) = &self.before {
            if last.checked_add(1) != Some(first) {
                return Err(format!("events between {last} and {first} are missing"));
            }
            let is_next = match hash {
                Some(hash) => link.hash.is_some() && link.before == Some(hash),
                None => link.before.is_none(),
            };
            if !is_next {
                return Err(format!(
                    "event {first} does not continue the event before it"
                ));
            }
        }
        self.verified.rows += 1;
        self.verified.without_hash += u64::from(link.hash.is_none());
        self.before = Some((last, link.hash.map(<[u8]>::to_vec)));
        Ok(())
    }

    pub fn verified(&self) -> Verified {
        self.verified
    }

    /// The end of the log: `seq` is the last event that the ledger's head knows of.
    pub fn end(self, seq: i64) -> Result<Verified, String> {
        match self.before {
            Some((last, _)) if last != seq => Err(format!(
                "the log ends with event {last}, but the ledger's last event is {seq}"
            )),
            Some(_) | None => Ok(self.verified),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row {
        first: i64,
        last: i64,
        body: &'static str,
        before: Option<Hash>,
        hash: Option<Hash>,
    }

    impl Row {
        fn link(&self) -> Link<'_> {
            Link {
                first: self.first,
                last: self.last,
                at: 7,
                body: self.body.as_bytes(),
                before: self.before.as_ref().map(<[u8; 32]>::as_slice),
                hash: self.hash.as_ref().map(<[u8; 32]>::as_slice),
            }
        }
    }

    /// Two rows of an older build, then three.
    fn rows() -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for n in 0..5 {
            let before = rows.last().and_then(|row| row.hash);
            let mut row = Row {
                first: n * 2 + 1,
                last: n * 2 + 2,
                body: "events",
                before,
                hash: None,
            };
            row.hash = (n > 1).then(|| row.link().expected());
            rows.push(row);
        }
        rows
    }

    fn walk(rows: &[Row]) -> Result<Verified, String> {
        let mut walk = Walk::default();
        for row in rows {
            walk.step(&row.link(), row.link().holds())?;
        }
        walk.end(10)
    }

    #[test]
    fn a_sound_chain_is_walked_from_any_row_on() {
        let rows = rows();
        for from in 0..rows.len() {
            let verified = walk(&rows[from..]).unwrap();
            assert_eq!(verified.rows, 5 - from as u64);
            assert_eq!(verified.without_hash, 2_u64.saturating_sub(from as u64));
        }
        assert_eq!(walk(&[]), Ok(Verified::default()));
    }

    #[test]
    fn whatever_is_changed_taken_out_or_lost_breaks_it() {
        type Change = fn(&mut Vec<Row>);
        let changes: [(&str, Change); 8] = [
            ("were changed after", |rows| rows[3].body = "evenvs"),
            ("were changed after", |rows| rows[4].last = 11),
            ("were changed after", |rows| rows[2].before = Some([1; 32])),
            ("were changed after", |rows| rows[4].hash = Some([1; 32])),
            ("are missing", |rows| {
                rows.remove(3);
            }),
            ("does not continue", |rows| rows[3].hash = None),
            ("does not continue", |rows| {
                rows[3].body = "evenvs";
                rows[3].hash = Some(rows[3].link().expected());
            }),
            ("the log ends with event 8", |rows| {
                rows.pop();
            }),
        ];
        for (expected, change) in changes {
            let mut rows = rows();
            change(&mut rows);
            let said = walk(&rows).unwrap_err();
            assert!(said.contains(expected), "{said}, not {expected}");
        }
    }
}
