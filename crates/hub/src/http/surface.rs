//! HTTP in the table of doors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::json;
use tokio::task::JoinHandle;

use super::accept::Server;
use super::{App, name_of};
use crate::config::{Config, Http};
use crate::data_dir::DataDir;
use crate::serve::{GRACE, ServeError, listen};
use crate::surface::{Open, Opener, Surface};
use crate::tls;

pub(crate) const SURFACE: Surface = Surface {
    check: |config| config.check_address().map(drop),
    ..Surface::new("http", bind)
};

/// Bound before the ledger is served: a taken port must not look like an outage that ended.
fn bind(config: &Config, data_dir: &DataDir) -> Result<Option<Opener>, ServeError> {
    let served = tls::served(&config.http, data_dir)?;
    let asked = config.http.listen;
    let listener = listen(asked, "--http")?;
    let addr = listener.local_addr().map_err(|source| ServeError::Listen {
        listen: asked,
        source,
    })?;
    Ok(Some(Box::new(move |app, config| {
        let (app, tls) = (Arc::clone(app), served.is_some());
        let address = address(&config.http, addr, tls);
        let mut card = vec![
            ("http", json!(addr)),
            ("tls", json!(tls)),
            ("address", json!(address)),
        ];
        let mut line = format!("switchboard serves {}", url(addr, tls));
        if let Some(served) = &served {
            let _ = app.certificate.set(served.public_key);
            card.push(("tlsFingerprint", json!(served.fingerprint.to_string())));
            card.push(("tlsSelfSigned", json!(served.is_self_signed)));
            if served.is_self_signed {
                line.push_str(&format!(
                    "\nfrom other machines: switchboard --url {address} --ca-fingerprint {}",
                    served.fingerprint
                ));
            }
        }
        let acceptor = served.map(|served| served.acceptor);
        let server = Server::new(Arc::clone(&app), acceptor, config.http.connections_max);
        let server = tokio::spawn(server.run(listener, GRACE));
        tracing::debug!(http = %addr, tls, auth = config.auth.as_str(), "the hub listens on {addr}");
        let open = Open {
            addr: Some(addr),
            card,
            line: Some(line),
            figures: None,
            close: Box::new(|| close(app, server).boxed()),
        };
        async { Ok(open) }.boxed()
    })))
}

/// Where agents reach it: by its name, or else its number; one that listens everywhere, where it would send from.
fn address(http: &Http, bound: SocketAddr, tls: bool) -> String {
    let mut names = http.allowed_hosts.iter().map(|host| name_of(host));
    if let Some(name) = names.find(|name| !name.eq_ignore_ascii_case("localhost")) {
        let scheme = if tls { "https" } else { "http" };
        return format!("{scheme}://{name}:{}", bound.port());
    }
    let mut addr = bound;
    if addr.ip().is_unspecified()
        && let Some(ip) = sends_from(addr)
    {
        addr.set_ip(ip);
    }
    url(addr, tls)
}

/// The address of this machine towards others. Nothing is sent to find out.
fn sends_from(bound: SocketAddr) -> Option<IpAddr> {
    let elsewhere: IpAddr = match bound {
        SocketAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        SocketAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind((bound.ip(), 0)).ok()?;
    socket.connect((elsewhere, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

async fn close(app: Arc<App>, server: JoinHandle<()>) {
    if let Err(error) = server.await {
        tracing::error!("the HTTP server crashed: {error}");
    }
    if let Some(sql) = &app.sql {
        sql.stop().await;
    }
}

/// Where it can be reached from this machine.
pub(crate) fn url(mut addr: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    if addr.ip().is_unspecified() {
        addr.set_ip(match addr {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("{scheme}://{addr}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_told_a_name_if_there_is_one_else_a_number_that_is_not_loopback() {
        let named = |hosts: &[&str], bound: &str, tls| {
            let http = Http {
                allowed_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
                ..Http::default()
            };
            address(&http, bound.parse().unwrap(), tls)
        };
        let hosts = ["localhost", "hub.example:1", "other.example"];
        assert_eq!(named(&hosts, "0.0.0.0:7", true), "https://hub.example:7");
        assert_eq!(named(&[], "10.0.0.5:7", true), "https://10.0.0.5:7");
        assert_eq!(named(&[], "127.0.0.1:7", false), "http://127.0.0.1:7");
        let own = sends_from("0.0.0.0:7".parse().unwrap());
        let own = own.unwrap_or(Ipv4Addr::LOCALHOST.into());
        assert_eq!(named(&[], "0.0.0.0:7", false), format!("http://{own}:7"));
    }
}
