//! Room for many sockets in this process.

use anyhow::ensure;

/// Descriptors that are no sockets of a crowd.
const RESERVED: u64 = 256;

/// Raises the limit as far as it goes; fails if so many sockets do not fit.
pub fn make_room(sockets: usize) -> anyhow::Result<()> {
    let granted = raise();
    let wanted = sockets as u64 + RESERVED;
    ensure!(
        granted.is_none_or(|granted| granted >= wanted),
        "this program may hold {} descriptors and needs {wanted}; raise the hard limit (ulimit -Hn)",
        granted.unwrap_or_default()
    );
    Ok(())
}

/// `None` is no limit.
fn raise() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What the system refuses stays as it was, and is read back.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}
