//! Fresh ids: a word for the kind, and a ULID that sorts by the time it was made.

use parking_lot::Mutex;
use ulid::{Generator, Ulid};

#[derive(Debug, Default)]
pub struct Ids(Mutex<Option<Generator>>);

impl Ids {
    /// Such as `tsk_01J…`.
    pub fn fresh(&self, kind: &str) -> String {
        let mut text = String::with_capacity(kind.len() + 1 + ulid::ULID_LEN);
        text.push_str(kind);
        text.push('_');
        let mut letters = [0; ulid::ULID_LEN];
        text.push_str(self.next().array_to_str(&mut letters));
        text
    }

    /// Whether an id of this kind has the form of those above.
    pub fn made(kind: &str, id: &str) -> bool {
        let ulid = id
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('_'));
        ulid.is_some_and(|ulid| Ulid::from_string(ulid).is_ok())
    }

    fn next(&self) -> Ulid {
        let mut generator = self.0.lock();
        let generator = generator.get_or_insert_with(Generator::new);
        generator
            .generate()
            .unwrap_or_else(|overflow| overflow.commit_overflow_increment())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_carry_their_kind_and_grow() {
        let ids = Ids::default();
        let made: Vec<String> = (0..1000).map(|_| ids.fresh("tsk")).collect();
        assert!(
            made.iter()
                .all(|id| id.starts_with("tsk_") && id.len() == 30)
        );
        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(made.iter().all(|id| Ids::made("tsk", id)));
        for id in ["", "tsk_", "tsk_1", "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
            assert!(!Ids::made("tsk", id), "{id}");
        }
    }
}
