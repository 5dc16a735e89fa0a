//! Who else has an old file open, where the system lists open files.
//!
//! Such a program may do nothing and hold no lock, so that the file alone does not tell.

#[cfg(target_os = "linux")]
use std::fs;
use std::path::Path;

/// A process that has the file open, as far as the system tells: ` in process 4711 (python3)`.
#[cfg(target_os = "linux")]
pub fn opener_of(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let wanted = fs::metadata(path).ok()?;
    let name = path.file_name()?;
    let own = std::process::id();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
            .filter(|pid| *pid != own)
        else {
            continue;
        };
        // Other users' processes cannot be looked into.
        let Ok(open) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let is_it = |file: fs::DirEntry| {
            let file = file.path();
            // Asked by its name first, so that nothing on a mount that hangs is touched.
            fs::read_link(&file).is_ok_and(|target| target.file_name() == Some(name))
                && fs::metadata(&file)
                    .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
        };
        if open.flatten().any(is_it) {
            let program = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!(" in process {pid} ({})", program.trim()));
        }
    }
    None
}

#[cfg(not(target_os = "linux"))]
pub fn opener_of(_: &Path) -> Option<String> {
    None
}
