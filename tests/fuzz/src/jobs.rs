//! What agents that work on jobs print, and the files that people edit: judged and read, or refused in a sentence.

use switchboard_core::job::JobAction;
use switchboard_wire::logist::call::{Printed, told};
use switchboard_wire::logist::{Index, Terms, files, history, judge, manifest, sanitized, spec};

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found = judge(&text, &Terms::default());
    assert_eq!(found.faults.is_empty(), found.error().is_none());
    assert!(found.faults.is_empty() || found.action == JobAction::Stuck);
    sanitized(&text);
    for exit in [None, Some(0), Some(1), Some(75), Some(124)] {
        let (stdout, stderr) = text.split_at(text.floor_char_boundary(text.len() / 2));
        told(&Printed {
            exit,
            stdout,
            stderr,
        });
    }
    again(history::read(bytes, "j").ok(), |text| {
        history::read(text, "j").ok()
    });
    again(manifest::read(bytes).ok(), |text| manifest::read(text).ok());
    again(Index::read(bytes).ok(), |text| Index::read(text).ok());
    again(spec::read(bytes).ok(), |text| spec::read(text).ok());
    again(files::migrate(bytes, "j").ok(), |text| {
        files::migrate(text, "j").ok()
    });
    if let Ok(read) = spec::read(bytes) {
        let _ = (read.limits(), read.over(spec::fresh("j".into())));
    }
}

/// What was read is printed, and read the same.
fn again<T: serde::Serialize + PartialEq + std::fmt::Debug>(
    read: Option<T>,
    parse: impl Fn(&[u8]) -> Option<T>,
) {
    if let Some(read) = read {
        let printed = serde_json::to_vec(&read).unwrap();
        assert_eq!(parse(&printed), Some(read));
    }
}
