//! Who listens on a port.

/// The process that listens on a port, if the system says so cheaply.
pub fn listener_of(port: u16) -> Option<u32> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| {
            let table = std::fs::read_to_string(table).ok()?;
            table
                .lines()
                .skip(1)
                .find_map(|line| listening_inode(line, port))
        })?;
    let wanted = format!("socket:[{inode}]");
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        // Other users' processes cannot be looked into.
        let Ok(open) = std::fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let holds = |file: std::fs::DirEntry| {
            std::fs::read_link(file.path())
                .is_ok_and(|target| target.as_os_str() == wanted.as_str())
        };
        if open.flatten().any(holds) {
            return Some(pid);
        }
    }
    None
}

/// A line of the kernel's table: number, local address, remote address, state, …, inode.
fn listening_inode(line: &str, port: u16) -> Option<u64> {
    const LISTENING: &str = "0A";
    let mut columns = line.split_ascii_whitespace();
    let (_, local_port) = columns.nth(1)?.rsplit_once(':')?;
    if u16::from_str_radix(local_port, 16).ok()? != port || columns.nth(1)? != LISTENING {
        return None;
    }
    columns.nth(5)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_owner_of_a_taken_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_of(port), Some(std::process::id()));
    }
}
