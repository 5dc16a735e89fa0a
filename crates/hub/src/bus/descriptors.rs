//! How many files and sockets this process may hold open: as many as it is allowed to ask for.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors that are no connections: the ledger and its readers, listeners, pipes, files that come and go.
const RESERVED: u64 = 512;

/// What the process got. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    pub before: Option<u64>,
    pub now: Option<u64>,
}

impl Descriptors {
    /// Raises the soft limit to the hard one. What the system refuses is left as it was.
    pub fn raise() -> Descriptors {
        let mut limit = getrlimit(Resource::Nofile);
        let before = limit.current;
        let wishes = [limit.maximum, lesser(limit.maximum, MODEST)];
        for wish in wishes {
            if at_least(before, wish) {
                break;
            }
            limit.current = wish;
            if setrlimit(Resource::Nofile, limit).is_ok() {
                break;
            }
        }
        Descriptors {
            before,
            now: getrlimit(Resource::Nofile).current,
        }
    }

    /// Says what is wrong if these connections do not all fit at once.
    pub fn warning(&self, connections: u64) -> Option<String> {
        let now = self.now?;
        let room = now.saturating_sub(RESERVED);
        (room < connections).then(|| {
            format!(
                "this process may open {now} files, which is enough for about {room} of the {connections} connections that [bus] \
                 connections_max and [http] connections_max allow; raise the limit (ulimit -Hn, LimitNOFILE=) or lower the settings"
            )
        })
    }
}

/// Some systems name a hard limit that they do not grant; all of them grant this.
const MODEST: u64 = 10_240;

/// No limit is the largest of all.
fn lesser(limit: Option<u64>, bound: u64) -> Option<u64> {
    Some(limit.map_or(bound, |limit| limit.min(bound)))
}

fn at_least(limit: Option<u64>, wish: Option<u64>) -> bool {
    match (limit, wish) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(limit), Some(wish)) => limit >= wish,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_do_not_fit_are_warned_about() {
        let cases = [
            (Some(RESERVED + 100), 99, false),
            (Some(RESERVED + 100), 100, false),
            (Some(RESERVED + 100), 101, true),
            (Some(0), 1, true),
            (None, u64::MAX, false),
        ];
        for (now, connections, warned) in cases {
            let descriptors = Descriptors { before: now, now };
            let said = descriptors.warning(connections);
            assert_eq!(said.is_some(), warned, "{now:?} {connections}");
        }
    }

    #[test]
    fn the_soft_limit_rises_to_the_hard_one_and_never_falls() {
        let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let first = Descriptors::raise();
        assert!(at_least(first.now, first.before), "{first:?}");
        assert!(at_least(first.now, lesser(hard, MODEST)), "{first:?}");
        let again = Descriptors::raise();
        assert_eq!((again.before, again.now), (first.now, first.now));
    }

    #[test]
    fn limits_compare_with_no_limit_as_the_largest() {
        assert!(at_least(None, None) && at_least(None, Some(1)) && at_least(Some(1), Some(1)));
        assert!(!at_least(Some(1), None) && !at_least(Some(1), Some(2)));
        assert_eq!(lesser(None, 5), Some(5));
        assert_eq!(lesser(Some(3), 5), Some(3));
    }
}
