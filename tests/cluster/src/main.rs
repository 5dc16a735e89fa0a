//! Runs a command beside a throw-away cluster that its tests share, and passes its exit code on.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};

use switchboard_test_cluster::{Cluster, SHARED_CLUSTER};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!(
            "usage: switchboard-test-cluster COMMAND [ARGUMENT…]   ({SHARED_CLUSTER} names the cluster to it)"
        );
        return ExitCode::from(2);
    };
    let cluster = match Cluster::with(&[("max_connections", "300")]) {
        Ok(cluster) => cluster,
        Err(missing) => {
            eprintln!("a throw-away cluster needs {missing}");
            return ExitCode::FAILURE;
        }
    };
    match Command::new(&program)
        .args(arguments)
        .env(SHARED_CLUSTER, cluster.url("postgres"))
        .status()
    {
        Ok(status) => ExitCode::from(code(status)),
        Err(error) => {
            eprintln!("{} does not start: {error}", program.display());
            ExitCode::from(127)
        }
    }
}

/// A command's exit code as a shell tells it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
