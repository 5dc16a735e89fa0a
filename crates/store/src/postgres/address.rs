//! Where a PostgreSQL ledger is: an address as libpq takes it, and the way to the server behind it.
//!
//! Every part of the address is understood here, so that each mistake can be named; one server is reached by `tls`.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::describe;
use super::tls::{CONNECT_WITHIN, Mode, PORT, Tls, Wishes, host, port};
use crate::Error;

pub(crate) type Connection =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

const SERVERS_MAX: usize = 16;
const PASSFILE_BYTES_MAX: u64 = 1 << 20;
const SOCKET_FOLDER: &str = "/var/run/postgresql";
const USER_TIMEOUT: Duration = Duration::from_secs(5);
/// What holds unless the address says otherwise.
const DEFAULTS: &str =
    "application_name=switchboard&keepalives_idle=10&keepalives_interval=3&keepalives_retries=3";
/// Parameters that the library reads, and what they take.
const HANDED_ON: [(&str, &str); 14] = [
    ("user", "a name"),
    ("password", "text"),
    ("dbname", "a name"),
    ("application_name", "a name"),
    ("options", "text"),
    ("connect_timeout", "a number of seconds"),
    ("keepalives", "0 or 1"),
    ("keepalives_idle", "a number of seconds"),
    ("keepalives_interval", "a number of seconds"),
    ("keepalives_count", "a number of probes"),
    ("keepalives_retries", "a number of probes"),
    ("channel_binding", "disable, prefer or require"),
    ("load_balance_hosts", "disable or random"),
    ("sslnegotiation", "postgres or direct"),
];
/// Said instead of quoting, because what would be quoted may be a piece of the password.
const TORN: &str = "an '@' stands after the first '/' or '?'; in a user name or password write '/' as %2F, \
                    '?' as %3F and '@' as %40, and '@' as %40 everywhere else";

/// Where a PostgreSQL ledger is, and how to reach it. Prints without its password.
#[derive(Clone)]
pub struct Address {
    /// One host and port each, tried in turn.
    servers: Vec<Config>,
    tls: Tls,
    pooled: Option<bool>,
    notify: bool,
    shown: String,
}

impl Address {
    /// Takes `postgres://` and `postgresql://`, several hosts, and libpq's parameters.
    pub fn parse(url: &str) -> Result<Address, Error> {
        Address::parse_in(url, &Surroundings::of_this_process())
    }

    fn parse_in(url: &str, around: &Surroundings) -> Result<Address, Error> {
        understand(url, around).map_err(|why| {
            let why = if is_torn(url) { TORN } else { &why };
            Error::Open(format!("the address of the ledger cannot be used: {why}"))
        })
    }

    /// What the address says about a pooler in between; `None`: find out.
    pub(super) fn pooled(&self) -> Option<bool> {
        self.pooled
    }

    /// The same, with that question answered.
    pub(super) fn settled(mut self, pooled: bool) -> Address {
        self.pooled = Some(pooled);
        self
    }

    /// Whether wake-ups may be sent through the server.
    pub(super) fn notify(&self) -> bool {
        self.notify
    }

    /// A connection to the first server that will have us.
    ///
    /// `Error::Open` if all refused in a way that waiting does not mend, otherwise `Error::Unavailable`.
    pub(crate) async fn connect(&self) -> Result<(Client, Connection), Error> {
        self.tls.reach_one(&self.servers).await.map_err(|failure| {
            let sentence = format!("cannot reach {self}: {}", failure.reason);
            match failure.lasting {
                true => Error::Open(sentence),
                false => Error::Unavailable(sentence),
            }
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

fn understand(url: &str, around: &Surroundings) -> Result<Address, String> {
    let parts = Parts::cut(url)?;
    let mut own = Own::default();
    let mut handed_on = DEFAULTS.to_owned();
    for (name, raw) in &parts.parameters {
        let value = decode(name, raw)?;
        // As libpq: a parameter without value is one that was not given.
        if !value.is_empty() && !own.take(name, &value)? {
            handed_on = format!("{handed_on}&{}", checked(name, raw)?);
        }
    }
    let mut base: Config = format!("postgres:///?{handed_on}")
        .parse()
        .map_err(|error| describe(&error))?;
    let user_timeout = own.user_timeout.unwrap_or(USER_TIMEOUT);
    if !user_timeout.is_zero() {
        base.tcp_user_timeout(user_timeout);
    }
    if base.get_connect_timeout().is_none() {
        base.connect_timeout(CONNECT_WITHIN);
    }
    own.wishes.direct = base.get_ssl_negotiation() == SslNegotiation::Direct;
    let tls = Tls::new(&own.wishes, around.home.as_deref())?;
    parts.fill_in(&mut base, around)?;
    let mut servers = own.servers(&base, &parts)?;
    // After a failover another one of them takes the writes.
    let session = own.session.unwrap_or(match servers.len() {
        1 => TargetSessionAttrs::Any,
        _ => TargetSessionAttrs::ReadWrite,
    });
    let kept = match base.get_password() {
        Some(_) => String::new(),
        None => around.kept_passwords(),
    };
    for server in &mut servers {
        server.target_session_attrs(session);
        // As libpq: what does not leave the machine is not encrypted.
        server.ssl_mode(match server.get_hosts() {
            [Host::Unix(_), ..] => SslMode::Disable,
            _ => tls.ssl_mode,
        });
        if let (None, Some(password)) = (server.get_password(), kept_for(server, &kept)) {
            server.password(password);
        }
    }
    Ok(Address {
        servers,
        tls,
        pooled: own.pooled,
        notify: own.notify.unwrap_or(true),
        shown: parts.show(),
    })
}

/// A parameter to hand on, if the library takes it.
fn checked(name: &str, raw: &str) -> Result<String, String> {
    let known = HANDED_ON.iter().find(|(known, _)| *known == name);
    let (_, expected) = known.ok_or_else(|| format!("there is no parameter {name:?}"))?;
    let theirs = match name {
        "keepalives_count" => "keepalives_retries",
        name => name,
    };
    // The library's reader takes any '@' for the end of a user's name.
    let parameter = format!("{theirs}={}", raw.replace('@', "%40"));
    match format!("postgres:///?{parameter}").parse::<Config>() {
        Ok(_) => Ok(parameter),
        Err(_) => Err(format!("{name} must be {expected}, not {raw:?}")),
    }
}

/// The parameters that are understood here.
#[derive(Default)]
struct Own {
    hosts: Option<Vec<String>>,
    ports: Option<Vec<String>>,
    addresses: Vec<String>,
    wishes: Wishes,
    pooled: Option<bool>,
    notify: Option<bool>,
    session: Option<TargetSessionAttrs>,
    user_timeout: Option<Duration>,
}

impl Own {
    /// Whether it is one of them.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let list = || value.split(',').map(str::to_owned).collect();
        match name {
            "host" => self.hosts = Some(list()),
            "port" => self.ports = Some(list()),
            "hostaddr" => self.addresses = list(),
            "pooler" => {
                self.pooled = one_of(name, value, &[("transaction", true), ("none", false)])?
            }
            "notify" => self.notify = one_of(name, value, &[("on", true), ("off", false)])?,
            "sslmode" => self.wishes.mode = one_of(name, value, &Mode::WORDS)?,
            "sslrootcert" => self.wishes.root = Some(value.to_owned()),
            "sslcert" => self.wishes.cert = Some(PathBuf::from(value)),
            "sslkey" => self.wishes.key = Some(PathBuf::from(value)),
            // A server that takes no writes is of no use to a ledger.
            "target_session_attrs" => {
                let (any, writes) = (TargetSessionAttrs::Any, TargetSessionAttrs::ReadWrite);
                let words = [("any", any), ("read-write", writes), ("primary", writes)];
                self.session = one_of(name, value, &words)?;
            }
            // libpq counts it in milliseconds, the library in seconds.
            "tcp_user_timeout" => {
                let millis = value.parse().map(Duration::from_millis);
                let wrong = |_| format!("{name} must be a number of milliseconds, not {value:?}");
                self.user_timeout = Some(millis.map_err(wrong)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One configuration for each host, or for each `hostaddr` if there are no names.
    fn servers(&self, base: &Config, parts: &Parts<'_>) -> Result<Vec<Config>, String> {
        let (given_hosts, given_ports) = parts.places()?;
        let mut hosts = self.hosts.clone().unwrap_or(given_hosts);
        if hosts.is_empty() {
            hosts = match self.addresses.is_empty() {
                true => vec![String::new()],
                false => self.addresses.clone(),
            };
        }
        let ports = self.ports.clone().unwrap_or(given_ports);
        let (count, addresses) = (hosts.len(), &self.addresses);
        if count > SERVERS_MAX {
            return Err(format!(
                "it has {count} hosts, at most {SERVERS_MAX} are allowed"
            ));
        }
        if ports.len() > 1 && ports.len() != count {
            return Err(format!("it has {} ports for {count} hosts", ports.len()));
        }
        if !addresses.is_empty() && addresses.len() != count {
            return Err(format!(
                "hostaddr has {} addresses for {count} hosts",
                addresses.len()
            ));
        }
        let server = |(at, host): (usize, &String)| {
            let mut server = base.clone();
            server.host(match host.as_str() {
                "" if Path::new(SOCKET_FOLDER).is_dir() => SOCKET_FOLDER,
                "" => "localhost",
                host => host,
            });
            let port = ports.get(at).or(ports.first()).map_or("", String::as_str);
            server.port(match (port, port.parse()) {
                ("", _) => PORT,
                (_, Ok(port)) if port > 0 => port,
                // It may be a password, if the host was forgotten.
                _ => return Err("a port must be a number from 1 to 65535".to_owned()),
            });
            if let Some(address) = addresses.get(at) {
                let wrong = |_| format!("hostaddr must be an IP address, not {address:?}");
                server.hostaddr(address.parse().map_err(wrong)?);
            }
            Ok(server)
        };
        hosts.iter().enumerate().map(server).collect()
    }
}

fn one_of<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<Option<T>, String> {
    let found = words.iter().find(|(word, _)| *word == value);
    let wrong = || {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("{name} must be one of {}, not {value:?}", words.join(", "))
    };
    found.map(|(_, meaning)| Some(*meaning)).ok_or_else(wrong)
}

/// An address taken apart; only the names of parameters are decoded.
struct Parts<'a> {
    user: &'a str,
    password: &'a str,
    places: &'a str,
    path: &'a str,
    parameters: Vec<(String, &'a str)>,
}

impl<'a> Parts<'a> {
    fn cut(url: &'a str) -> Result<Parts<'a>, String> {
        let (authority, path, query) =
            cut(url).ok_or("it must start with postgres:// or postgresql://")?;
        if path.contains('@') {
            return Err(TORN.to_owned());
        }
        let (login, places) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let mut parameters = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let wrong = "a parameter has no '='; write name=value, and '&' in a value as %26";
            let (name, value) = parameter.split_once('=').ok_or(wrong)?;
            parameters.push((decode("name of a parameter", name)?, value));
        }
        Ok(Parts {
            user,
            password,
            places,
            path,
            parameters,
        })
    }

    /// Hosts and ports, one each.
    fn places(&self) -> Result<(Vec<String>, Vec<String>), String> {
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        for place in self.places.split(',').filter(|_| !self.places.is_empty()) {
            let (host, port) = match place.strip_prefix('[').map(|rest| rest.split_once(']')) {
                None => place.split_once(':').unwrap_or((place, "")),
                Some(Some((host, ""))) => (host, ""),
                Some(Some((host, port))) if port.starts_with(':') => (host, &port[1..]),
                Some(_) => return Err(format!("the host {place:?} must be like [::1]:5432")),
            };
            hosts.push(decode("host", host)?);
            ports.push(decode("port", port)?);
        }
        Ok((hosts, ports))
    }

    /// Who we are and what is asked for, where the parameters did not say it.
    fn fill_in(&self, base: &mut Config, around: &Surroundings) -> Result<(), String> {
        let given =
            |what, text| Ok::<_, String>(Some(decode(what, text)?).filter(|text| !text.is_empty()));
        let user = given("user name", self.user)?.or_else(|| around.user.clone());
        let password = given("password", self.password)?.or_else(|| around.password.clone());
        let dbname = given("database name", self.path)?;
        if let (None, Some(user)) = (base.get_user(), user) {
            base.user(user);
        }
        if let (None, Some(password)) = (base.get_password(), password) {
            base.password(password);
        }
        if let (None, Some(dbname)) = (base.get_dbname(), dbname) {
            base.dbname(dbname);
        }
        Ok(())
    }

    /// As an address again, without the password and what concerns only ourselves.
    fn show(&self) -> String {
        let at = if self.user.is_empty() { "" } else { "@" };
        let mut shown = format!("postgres://{}{at}{}/{}", self.user, self.places, self.path);
        let hidden = ["password", "pooler", "notify"];
        let kept = self
            .parameters
            .iter()
            .filter(|(name, _)| !hidden.contains(&name.as_str()));
        for (at, (name, value)) in kept.enumerate() {
            let before = if at == 0 { '?' } else { '&' };
            shown.push_str(&format!("{before}{name}={value}"));
        }
        shown
    }
}

/// What stands before the path, the path, and what stands behind the question mark.
fn cut(url: &str) -> Option<(&str, &str, &str)> {
    let rest = url
        .strip_prefix("postgres://")
        .or_else(|| url.strip_prefix("postgresql://"))?;
    let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = front.split_once('/').unwrap_or((front, ""));
    Some((authority, path, query))
}

/// Whether host and port may be the beginning of a user's name and a password with a '/' or '?' in it.
fn is_torn(url: &str) -> bool {
    cut(url).is_some_and(|(authority, path, query)| {
        !authority.contains('@') && (path.contains('@') || query.contains('@'))
    })
}

fn decode(what: &str, text: &str) -> Result<String, String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece
            .get(..2)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let wrong = || {
            format!("in the {what}, '%' must begin a code from %01 to %FF; write '%' itself as %25")
        };
        bytes.push(byte.filter(|byte| *byte != 0).ok_or_else(wrong)?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| format!("the {what} is not UTF-8"))
}

/// What libpq looks at besides the address.
#[derive(Default)]
struct Surroundings {
    user: Option<String>,
    password: Option<String>,
    passfile: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl Surroundings {
    fn of_this_process() -> Surroundings {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = std::env::home_dir();
        let usual = home.as_ref().map(|home| home.join(".pgpass"));
        Surroundings {
            user: variable("PGUSER").or_else(os_user),
            password: variable("PGPASSWORD"),
            passfile: variable("PGPASSFILE").map(PathBuf::from).or(usual),
            home,
        }
    }

    /// The lines of libpq's password file, if nobody else can read it.
    fn kept_passwords(&self) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let mut text = String::new();
        let Some(path) = self.passfile.as_deref().filter(|path| path.is_file()) else {
            return text;
        };
        let shown = path.display();
        match File::open(path).and_then(|file| Ok((file.metadata()?.permissions().mode(), file))) {
            Ok((mode, _)) if mode & 0o077 != 0 => tracing::warn!(
                "the password file {shown} is ignored, because others can read it; run: chmod 600 {shown}"
            ),
            Ok((_, file)) => {
                if let Err(error) = file.take(PASSFILE_BYTES_MAX).read_to_string(&mut text) {
                    tracing::warn!("cannot read the password file {shown}: {error}");
                }
            }
            Err(error) => tracing::warn!("cannot read the password file {shown}: {error}"),
        }
        text
    }
}

/// The password that is kept for this server.
fn kept_for(server: &Config, passwords: &str) -> Option<String> {
    let host = match host(server) {
        folder if folder == SOCKET_FOLDER => "localhost".to_owned(),
        host => host,
    };
    let user = server.get_user().unwrap_or_default();
    let dbname = server.get_dbname().unwrap_or(user);
    let wanted = [host.as_str(), &port(server).to_string(), dbname, user];
    passwords.lines().find_map(|line| password_in(line, wanted))
}

/// The last field of a line `host:port:database:user:password`, if the others fit.
fn password_in(line: &str, wanted: [&str; 4]) -> Option<String> {
    let mut rest = line;
    for wanted in wanted {
        rest = match rest.strip_prefix("*:") {
            Some(rest) => rest,
            None => {
                let (field, rest) = unescape(rest, Some(':'));
                (field == wanted).then_some(rest)?
            }
        };
    }
    Some(unescape(rest, None).0).filter(|password| !password.is_empty())
}

fn unescape(text: &str, end: Option<char>) -> (String, &str) {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => plain.extend(rest.next()),
            next if Some(next) == end => break,
            next => plain.push(next),
        }
    }
    (plain, rest.as_str())
}

/// The name of the account that runs this process, where the system tells it in a file.
fn os_user() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let id = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(id.as_str())).then(|| name.to_owned())
    };
    accounts.lines().find_map(name)
}

#[cfg(test)]
mod tests;
