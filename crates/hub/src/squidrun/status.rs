//! `app-status.json`: the number of the session that runs, for whoever starts in it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use serde_json::{Map, Value};
use switchboard_wire::IsoTime;

use crate::projection::folder;
use crate::spool;

const FILE: &str = "app-status.json";

/// The session that the file names; none if it cannot be understood.
pub fn session(dir: &OwnedFd) -> io::Result<u32> {
    let session = read(dir)?.get("session").and_then(Value::as_u64);
    Ok(session
        .and_then(|session| u32::try_from(session).ok())
        .unwrap_or(0))
}

/// Says which session runs, and leaves what others put there.
pub fn write(dir: &OwnedFd, session: u32, started_at: IsoTime, now: IsoTime) -> io::Result<()> {
    let mut status = read(dir)?;
    status.extend([
        ("started".to_owned(), started_at.to_string().into()),
        ("mode".to_owned(), "hub".into()),
        ("version".to_owned(), env!("CARGO_PKG_VERSION").into()),
        ("platform".to_owned(), platform().into()),
        ("lastUpdated".to_owned(), now.to_string().into()),
        ("session".to_owned(), session.into()),
    ]);
    let mut text = serde_json::to_vec_pretty(&status)?;
    text.push(b'\n');
    spool::put(dir, OsStr::new(FILE), &text, dir)
}

fn read(dir: &OwnedFd) -> io::Result<Map<String, Value>> {
    let bytes = folder::read(dir, Path::new(FILE))?.unwrap_or_default();
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// As the scripts of that world name it.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        system => system,
    }
}
