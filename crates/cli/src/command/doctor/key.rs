//! The master key: whether the hub could read it, and who else can.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use switchboard_hub::data_dir::Keys;
use switchboard_wire::signature::MasterKey;

use super::Check;

pub fn checks(dir: &Path) -> Vec<Check> {
    let shared = dir.join(Keys::SHARED);
    let mut checks = vec![check(&dir.join(Keys::OWN))];
    if shared.exists() {
        checks.push(check(&shared));
    }
    checks
}

fn check(file: &Path) -> Check {
    let shown = file.display();
    let meta = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = "no master key yet; the hub creates it when it needs one";
            return Check::ok("key", text);
        }
        Err(error) => return Check::fail("key", format!("{shown} cannot be read: {error}")),
        Ok(meta) => meta,
    };
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let text = format!(
            "{shown} has mode {mode:o}, so others can act as any agent; run 'chmod 600 {shown}', and 'switchboard key rotate' if they may have read it"
        );
        return Check::fail("key", text);
    }
    match fs::read_to_string(file) {
        Ok(text) if MasterKey::from_hex(text.trim()).is_some() => {
            Check::ok("key", format!("{shown} is readable by its owner only"))
        }
        Ok(_) => Check::fail(
            "key",
            format!(
                "{shown} is not a key of 32 bytes in hexadecimal, so 'switchboard up' would fail; restore it from a backup, or delete it to get a new one (all agents then need new keys)"
            ),
        ),
        Err(error) => Check::fail(
            "key",
            format!(
                "{shown} cannot be read: {error}, so 'switchboard up' would fail; fix its owner and mode with chown and chmod"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_key_that_others_can_read_or_nobody_can_use_fails_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(Keys::OWN);
        assert_eq!(check(&file).state, State::Ok, "there is none yet");
        let sound = "07".repeat(32);
        for (text, mode, state, word) in [
            (&*sound, 0o644, State::Fail, "chmod 600"),
            (&*sound, 0o600, State::Ok, "owner only"),
            (&*sound, 0o400, State::Ok, "owner only"),
            ("secret", 0o600, State::Fail, "restore it"),
        ] {
            let _ = fs::remove_file(&file);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let check = check(&file);
            assert_eq!(check.state, state, "{}", check.text);
            assert!(check.text.contains(word), "{}", check.text);
        }
    }
}
