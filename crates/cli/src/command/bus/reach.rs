//! The way to the bus: its address, and who one is there.
//!
//! Under mutual TLS whoever can read the hub's authority needs no files: a certificate is made for the one call, and is
//! gone with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use switchboard_client::bus::{Credential, TlsFiles};
use switchboard_core::Timestamp;
use switchboard_hub::bus::authority::{Existing, Name, Order, Registrar, Role, Serial};

use crate::context::Context;
use crate::discover::Found;
use crate::failure::Failure;
use crate::show::now;

/// Where the bus is, and with which certificate to go there.
#[derive(Debug, ClapArgs)]
pub struct Door {
    /// Address of the bus [default: that of the hub running for this project]
    #[arg(
        long,
        env = "SWITCHBOARD_BUS",
        value_name = "HOST:PORT",
        help_heading = "Bus"
    )]
    addr: Option<String>,
    /// Id to connect as [default: with mutual TLS the id in the certificate's file name, else a new one]
    #[arg(long, value_name = "ID", help_heading = "Bus")]
    id: Option<String>,
    /// Client certificate for mutual TLS [default: a temporary one, if you can read the hub's authority key]
    #[arg(long, value_name = "FILE", requires_all = ["key", "ca"], help_heading = "Bus")]
    cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Bus")]
    key: Option<PathBuf>,
    /// Authority (CA) that must have signed the director's certificate
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Bus")]
    ca: Option<PathBuf>,
}

/// As whom to go there, and for how long at most.
pub struct Visitor<'a> {
    pub id: &'a str,
    pub role: Role,
    pub lasts: Duration,
}

/// A call that is over at once.
pub const CALL_FOR: Duration = Duration::from_secs(60);
/// One that may go on for long; its certificate is ended with it.
pub const VISIT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// A way that was found.
pub struct Reach {
    pub addr: String,
    pub tls: Option<TlsFiles>,
    /// What to sign the hello with.
    pub credential: Option<Credential>,
    /// Kept for as long as it is used.
    _pass: Option<Pass>,
}

/// A certificate for one call.
struct Pass {
    data_dir: PathBuf,
    folder: PathBuf,
    /// To be ended; a short one ends by itself.
    serial: Option<Serial>,
}

/// Below the data directory, where nobody else can read.
const PASSES: &str = "bus/calls";

impl Door {
    /// Under which id to go: a certificate is good for one only.
    pub fn id(&self, new: impl FnOnce() -> String) -> String {
        let of_cert = || {
            let stem = self.cert.as_ref()?.file_stem()?.to_str()?;
            Some(unescaped(stem))
        };
        self.id.clone().or_else(of_cert).unwrap_or_else(new)
    }

    pub fn reach(&self, context: &Context, visitor: &Visitor<'_>) -> Result<Reach, Failure> {
        let found = context.find();
        let addr = match &self.addr {
            Some(addr) => addr.clone(),
            None => bus_of(&found, context)?,
        };
        if let (Some(cert), Some(key), Some(ca)) = (&self.cert, &self.key, &self.ca) {
            let file = |path: &PathBuf| context.here.join(path);
            let tls = TlsFiles {
                cert: file(cert),
                key: file(key),
                ca: file(ca),
            };
            return Ok(Reach {
                addr,
                tls: Some(tls),
                credential: None,
                _pass: None,
            });
        }
        let own = match &found {
            Found::Running { data_dir, hub } if hub.bus_addr().as_ref() == Some(&addr) => {
                Some((data_dir, hub.bus_tls))
            }
            _ => None,
        };
        if let Some((data_dir, true)) = own {
            let (tls, pass) = pass(data_dir, visitor)?;
            return Ok(Reach {
                addr,
                tls: Some(tls),
                credential: None,
                _pass: Some(pass),
            });
        }
        let token = context.token(own.map(|(data_dir, _)| data_dir.as_path()));
        Ok(Reach {
            addr,
            tls: None,
            credential: token.as_deref().map(credential).transpose()?,
            _pass: None,
        })
    }
}

/// What was printed when it was made.
pub fn credential(text: &str) -> Result<Credential, Failure> {
    Credential::from_text(text).ok_or_else(|| {
        Failure::Usage(
            "the token is not one that a hub created; create one with 'switchboard token create'"
                .to_owned(),
        )
    })
}

impl Reach {
    /// Whether there is a certificate, which may be so new that the hub has not heard of it yet.
    pub fn may_be_new(&self) -> bool {
        self.tls.is_some()
    }
}

/// `cert issue` names files after the id, with `%XX` for what a file system may not like.
fn unescaped(stem: &str) -> String {
    let mut bytes = Vec::with_capacity(stem.len());
    let mut rest = stem.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let pair = after
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| stem.to_owned())
}

fn bus_of(found: &Found, context: &Context) -> Result<String, Failure> {
    if let Some(url) = &context.options.url {
        return Err(Failure::NoHub(format!(
            "the bus of the hub at {url} must be named: pass its address with --addr HOST:PORT, or set SWITCHBOARD_BUS (a hub's bus listens on loopback unless '--bus' says otherwise)"
        )));
    }
    let Found::Running { data_dir, hub } = found else {
        return Err(Failure::NoHub(context.no_hub(found)));
    };
    hub.bus_addr().ok_or_else(|| {
        Failure::Failed(format!(
            "the hub of {} has its bus switched off; start it with 'switchboard up --bus 127.0.0.1:8731', or pass another bus's address with --addr",
            data_dir.display()
        ))
    })
}

fn pass(data_dir: &Path, visitor: &Visitor<'_>) -> Result<(TlsFiles, Pass), Failure> {
    let no_pass = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "the bus requires mutual TLS, and no temporary certificate can be created: {error}; pass one with --cert, --key and --ca"
        ))
    };
    let name = Name::for_role(visitor.id, visitor.role).map_err(|error| {
        Failure::Usage(format!(
            "'{}' is not a valid id: {error}",
            visitor.id.escape_debug()
        ))
    })?;
    let at = Timestamp(now().0);
    let folder = data_dir
        .join(PASSES)
        .join(format!("{}-{}", std::process::id(), at.0));
    let mut registrar = Registrar::open(data_dir, at).map_err(|error| no_pass(&error))?;
    let order = Order {
        name: &name,
        role: visitor.role,
        lasts: visitor.lasts,
        out: Some(&folder),
        existing: Existing::Refuse,
    };
    let issued = registrar.issue(&order).map_err(|error| no_pass(&error))?;
    let pass = Pass {
        data_dir: data_dir.to_owned(),
        folder,
        serial: (visitor.lasts > CALL_FOR).then(|| issued.record.serial.clone()),
    };
    let files = TlsFiles {
        cert: issued.cert,
        key: issued.key,
        ca: issued.ca,
    };
    Ok((files, pass))
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!("{} cannot be removed: {error}", self.folder.display());
        }
        let Some(serial) = &self.serial else { return };
        let ended = Registrar::open(&self.data_dir, Timestamp(now().0))
            .and_then(|mut registrar| registrar.revoke(serial.as_str(), Some("the call is over")));
        if let Err(error) = ended {
            tracing::warn!("certificate {serial} cannot be revoked: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover;
    use clap::Parser;
    use switchboard_hub::data_dir::DataDir;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        door: Door,
    }

    fn door(line: &str) -> Result<Door, clap::Error> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.door)
    }

    fn hub(root: &Path, more: &str) -> PathBuf {
        let dir = root.join(discover::DATA_DIR);
        fs::create_dir_all(&dir).unwrap();
        let pid = std::process::id();
        let text = format!(r#"{{"pid":{pid},"http":"127.0.0.1:7373"{more}}}"#);
        fs::write(dir.join(discover::HUB_FILE), text).unwrap();
        dir
    }

    fn ann(role: Role, lasts: Duration) -> Visitor<'static> {
        Visitor {
            id: "ann",
            role,
            lasts,
        }
    }

    #[test]
    fn files_for_tls_come_together_or_not_at_all() {
        assert!(door("--cert a --key b --ca c").is_ok());
        for line in ["--cert a", "--key b", "--ca c", "--cert a --key b"] {
            assert!(door(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_id_is_the_one_of_the_certificate_unless_another_is_named() {
        let new = || "new".to_owned();
        assert_eq!(door("").unwrap().id(new), "new");
        assert_eq!(door("--id ann").unwrap().id(new), "ann");
        let files = "--cert d/job%2f1.b.pem --key k --ca c";
        assert_eq!(door(files).unwrap().id(new), "job/1.b");
        for id in ["worker-3", "job/7", "100%", "%2f", ".hidden", "ca"] {
            let stem = id.parse::<Name>().unwrap().stem();
            assert_eq!(unescaped(&stem), id);
        }
        assert_eq!(unescaped("%zz%2"), "%zz%2");
    }

    #[test]
    fn the_bus_of_the_hub_here_is_found_unless_another_is_named() {
        let root = tempfile::tempdir().unwrap();
        let visitor = ann(Role::Operator, CALL_FOR);
        let found = |line: &str| {
            let reach = door(line)
                .unwrap()
                .reach(&Context::at(root.path()), &visitor);
            reach.map(|reach| (reach.addr.clone(), reach.tls.is_some()))
        };
        assert!(matches!(found(""), Err(Failure::NoHub(_))));
        let named = found("--addr h:1").unwrap();
        assert_eq!(named, ("h:1".to_owned(), false));
        let _held = DataDir::open(&hub(root.path(), "")).unwrap();
        let off = found("").unwrap_err();
        assert!(off.to_string().contains("switched off"), "{off}");
        hub(root.path(), r#","bus":"0.0.0.0:8731","busTls":false"#);
        assert_eq!(found("").unwrap(), ("127.0.0.1:8731".to_owned(), false));
        hub(root.path(), r#","bus":"127.0.0.1:8731","busTls":true"#);
        let none = found("").unwrap_err();
        assert!(none.to_string().contains("--cert"), "{none}");
        assert_eq!(found("--addr h:1").unwrap(), ("h:1".to_owned(), false));
    }

    #[test]
    fn who_can_read_the_authority_gets_a_certificate_that_goes_with_the_call() {
        let root = tempfile::tempdir().unwrap();
        let data_dir = hub(root.path(), r#","bus":"127.0.0.1:8731","busTls":true"#);
        let _held = DataDir::open(&data_dir).unwrap();
        Registrar::init(&data_dir, &[], Timestamp(now().0)).unwrap();
        for (lasts, revoked) in [(CALL_FOR, false), (VISIT_FOR, true)] {
            let visitor = ann(Role::Operator, lasts);
            let reach = door("").unwrap().reach(&Context::at(root.path()), &visitor);
            let reach = reach.unwrap();
            let files = reach.tls.clone().unwrap();
            assert!(reach.may_be_new());
            let serves = |files: &TlsFiles| {
                switchboard_client::bus::tls::client_config(&files.cert, &files.key, &files.ca)
            };
            assert!(serves(&files).is_ok());
            drop(reach);
            assert!(!files.key.exists());
            let listed = fs::read_to_string(data_dir.join("bus/index.json")).unwrap_or_default();
            assert_eq!(listed.contains("the call is over"), revoked, "{listed}");
        }
    }
}
