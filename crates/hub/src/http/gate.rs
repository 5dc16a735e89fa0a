//! What every request must pass before anything else: its size, and the name it calls the hub by.
//!
//! A web page that the user happens to visit can send requests to this machine, but it cannot choose their `Host` and
//! `Origin`. So a request is served only under a name that is ours.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use switchboard_wire::Malformed;

use super::error::Failure;
use crate::config::{Http, Network};

/// Names and values of all headers together.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Addresses in `X-Forwarded-For` that are looked at.
const HOPS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub struct Gate {
    hosts: Vec<String>,
    proxies: Vec<Network>,
}

impl Gate {
    pub fn new(http: &Http) -> Self {
        let hosts = http
            .allowed_hosts
            .iter()
            .map(|host| name_of(host).to_ascii_lowercase())
            .collect();
        Gate {
            hosts,
            proxies: http.trusted_proxies.clone(),
        }
    }

    /// Lets a request through, or says why not. `local` is the address it came in at.
    pub fn check<B>(&self, request: &Request<B>, local: SocketAddr) -> Result<(), Failure> {
        let headers = request.headers();
        let size: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if size > HEADER_BYTES_MAX {
            return Err(Failure::HeadersTooLarge);
        }
        // Whatever answers GET would also be done for HEAD, unseen.
        if request.method() == Method::HEAD && is_call(request.uri().path()) {
            return Err(Failure::MethodNotAllowed);
        }
        if headers.get_all(header::HOST).iter().nth(1).is_some() {
            return Err(Malformed::field("Host", "is given more than once").into());
        }
        let host = called_by(headers, request.uri());
        if !self.is_ours(host, local) {
            return Err(Failure::WrongHost(format!(
                "Host {:?} is not a name of this hub; add it with --host, or to [http] allowed_hosts",
                cut(host)
            )));
        }
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            if !is_origin(origin, host) {
                return Err(elsewhere("Origin", origin, host));
            }
        }
        if is_from_elsewhere(headers, request.uri().path()) {
            return Err(elsewhere("Origin", "another site", host));
        }
        Ok(())
    }

    /// Whether many may come from this address: a trusted proxy, and this machine.
    pub fn speaks_for_many(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback() || self.is_proxy(ip)
    }

    fn is_proxy(&self, ip: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(ip))
    }

    /// Whom a request is from: the peer, or whom a trusted proxy names.
    pub fn sender(&self, headers: &HeaderMap, remote: IpAddr) -> IpAddr {
        let mut ip = remote.to_canonical();
        if !self.is_proxy(ip) {
            return ip;
        }
        let named = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok());
        let hops: Vec<&str> = named.flat_map(|value| value.split(',')).collect();
        // From the nearest hop outward, for as long as each one is trusted to name the one before it.
        for hop in hops.iter().rev().take(HOPS_MAX) {
            let Ok(named) = hop.trim().parse::<IpAddr>() else {
                break;
            };
            ip = named.to_canonical();
            if !self.is_proxy(ip) {
                break;
            }
        }
        ip
    }

    /// Whether a proxy that is believed says that it was called over TLS.
    pub fn came_over_tls(&self, headers: &HeaderMap, remote: IpAddr) -> bool {
        let told = headers.get("x-forwarded-proto");
        self.speaks_for_many(remote) && told.is_some_and(|told| told == "https")
    }

    fn is_ours(&self, authority: &str, local: SocketAddr) -> bool {
        let name = name_of(authority);
        if name.eq_ignore_ascii_case("localhost")
            || self
                .hosts
                .iter()
                .any(|host| host.eq_ignore_ascii_case(name))
        {
            return true;
        }
        // An address cannot be made to point elsewhere, as a name can.
        let address = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        address.is_ok_and(|ip| {
            let ip = ip.to_canonical();
            ip.is_loopback() || ip == local.ip().to_canonical()
        })
    }
}

/// Without the port.
pub fn name_of(authority: &str) -> &str {
    let after_bracket = authority.rfind(']').unwrap_or(0);
    match authority[after_bracket..].rfind(':') {
        // A bare IPv6 address has many colons and no port.
        Some(_) if after_bracket == 0 && authority.matches(':').count() > 1 => authority,
        Some(colon) => &authority[..after_bracket + colon],
        None => authority,
    }
}

/// Refuses a page of another origin what is handed over only once.
///
/// Any page can make a browser send a plain GET. Not every browser says more about it than where it was told to.
pub fn check_referer(headers: &HeaderMap, uri: &Uri) -> Result<(), Failure> {
    let ours = called_by(headers, uri);
    for referer in headers.get_all(header::REFERER) {
        let referer = referer.to_str().unwrap_or_default();
        let origin = referer.parse::<Uri>().ok();
        let authority = origin.as_ref().and_then(Uri::authority);
        if authority.is_none_or(|authority| !authority.as_str().eq_ignore_ascii_case(ours)) {
            return Err(elsewhere("Referer", referer, ours));
        }
    }
    Ok(())
}

/// The name that a request calls the hub by: what its target says, if that is more than a path, or else `Host`.
pub fn called_by<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> &'a str {
    let host = || headers.get(header::HOST).map(HeaderValue::as_bytes);
    match uri.authority() {
        Some(authority) => authority.as_str(),
        None => host()
            .and_then(|host| std::str::from_utf8(host).ok())
            .unwrap_or_default(),
    }
}

/// What does something, unlike a page that a link may lead to.
fn is_call(path: &str) -> bool {
    ["/api/", "/v2/", "/v3/", "/runtime/", "/ansible/"]
        .iter()
        .any(|start| path.starts_with(start))
}

/// Browsers say so, also where they send no `Origin`; following a link is fine, but not to a call.
fn is_from_elsewhere(headers: &HeaderMap, path: &str) -> bool {
    let says = |name: &str, value: &str| headers.get(name).is_some_and(|said| said == value);
    let cross_site = says("sec-fetch-site", "cross-site");
    if is_call(path) {
        return cross_site || says("sec-fetch-site", "same-site");
    }
    cross_site && !says("sec-fetch-mode", "navigate")
}

/// Whether a page of this origin called the hub by the name that it came from, port included.
fn is_origin(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let default = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    let plain = |authority: &'_ str| match authority.strip_suffix(default) {
        // An address in brackets may end like a port.
        Some(name) if name_of(authority) == name => name.to_ascii_lowercase(),
        Some(_) | None => authority.to_ascii_lowercase(),
    };
    plain(authority) == plain(host)
}

fn elsewhere(what: &str, found: &str, host: &str) -> Failure {
    Failure::WrongHost(format!(
        "{what} {:?} differs from {:?} in Host; a proxy must not change Host",
        cut(found),
        cut(host)
    ))
}

fn cut(found: &str) -> String {
    found.chars().take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(hosts: &[&str], proxies: &[&str]) -> Gate {
        Gate::new(&Http {
            allowed_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            trusted_proxies: proxies
                .iter()
                .map(|network| network.parse().unwrap())
                .collect(),
            ..Http::default()
        })
    }

    fn passes(gate: &Gate, headers: &[(&str, &str)]) -> bool {
        passes_at(gate, "/api/v1/status", headers)
    }

    fn passes_at(gate: &Gate, path: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate.check(
            &request.body(()).unwrap(),
            "192.0.2.7:7373".parse().unwrap(),
        )
        .is_ok()
    }

    #[test]
    fn only_names_of_the_hub_pass() {
        let gate = gate(&["hub.example", "other.example:7373"], &[]);
        let cases = [
            ("127.0.0.1:7373", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("[::1]:7373", true),
            ("::1", true),
            ("hub.example", true),
            ("HUB.example:443", true),
            ("other.example", true),
            ("192.0.2.7:7373", true),
            ("192.0.2.8:7373", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
            (":7373", false),
        ];
        for (host, ours) in cases {
            assert_eq!(passes(&gate, &[("host", host)]), ours, "{host}");
        }
        assert!(!passes(&gate, &[]), "no Host at all");
    }

    #[test]
    fn a_request_calls_the_hub_by_one_name() {
        let gate = gate(&[], &[]);
        let [ours, evil] = [("host", "localhost"), ("host", "evil.example")];
        for headers in [[ours, evil], [evil, ours], [ours, ours]] {
            assert!(!passes(&gate, &headers), "{headers:?}");
        }
        for (target, host, passed) in [
            ("http://localhost/healthz", ours, true),
            ("http://evil.example/healthz", ours, false),
            ("http://localhost/healthz", evil, true),
        ] {
            assert_eq!(passes_at(&gate, target, &[host]), passed, "{target}");
        }
    }

    #[test]
    fn a_page_from_elsewhere_does_not_pass() {
        let gate = gate(&[], &[]);
        let host = ("host", "127.0.0.1:7373");
        for (origin, ours) in [
            ("http://127.0.0.1:7373", true),
            ("https://127.0.0.1:7373", true),
            ("http://127.0.0.1:3000", false),
            ("http://127.0.0.1", false),
            ("http://localhost:7373", false),
            ("http://localhost:3000", false),
            ("https://evil.example", false),
            ("127.0.0.1:7373", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(passes(&gate, &[host, ("origin", origin)]), ours, "{origin}");
        }
        for (host, origin, ours) in [
            ("localhost", "http://LOCALHOST:80", true),
            ("localhost:443", "https://localhost", true),
            ("localhost", "http://localhost:443", false),
            ("[::1]:7373", "http://[::1]:7373", true),
            ("[::1]", "http://[::1]:7373", false),
        ] {
            let headers = [("host", host), ("origin", origin)];
            assert_eq!(passes(&gate, &headers), ours, "{host} {origin}");
        }
    }

    #[test]
    fn a_link_from_elsewhere_leads_anywhere_but_to_a_call() {
        let gate = gate(&[], &[]);
        // site, mode, passes at a call, passes elsewhere
        for (site, mode, call, page) in [
            ("cross-site", "no-cors", false, false),
            ("cross-site", "navigate", false, true),
            ("same-site", "no-cors", false, true),
            ("same-site", "navigate", false, true),
            ("same-origin", "cors", true, true),
            ("none", "navigate", true, true),
        ] {
            let headers = [
                ("host", "127.0.0.1:7373"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
            ];
            for (path, expected) in [
                ("/api/v1/messages?agentId=a", call),
                ("/v2/pipeline", call),
                ("/v3/cursor", call),
                ("/healthz", page),
                ("/", page),
            ] {
                assert_eq!(
                    passes_at(&gate, path, &headers),
                    expected,
                    "{site} {mode} {path}"
                );
            }
        }
        let silent = [("host", "127.0.0.1:7373"), ("sec-fetch-site", "cross-site")];
        assert!(!passes_at(&gate, "/healthz", &silent), "no mode at all");
    }

    #[test]
    fn a_referer_is_ours_only_if_it_names_the_same_origin() {
        let uri = Uri::from_static("/api/v1/messages?agentId=a");
        let ours = |referers: &[&str]| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "127.0.0.1:7373".parse().unwrap());
            for referer in referers {
                headers.append("referer", referer.parse().unwrap());
            }
            check_referer(&headers, &uri).is_ok()
        };
        assert!(ours(&[]), "programs send none");
        for (referer, same) in [
            ("http://127.0.0.1:7373/", true),
            ("http://127.0.0.1:7373/tasks?x=1", true),
            ("http://127.0.0.1:3000/", false),
            ("http://localhost:7373/", false),
            ("https://evil.example/127.0.0.1:7373", false),
            ("http://127.0.0.1:7373@evil.example/", false),
            ("/tasks", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(ours(&[referer]), same, "{referer}");
        }
        let both = ["http://127.0.0.1:7373/", "https://evil.example/"];
        assert!(!ours(&both));
    }

    #[test]
    fn headers_are_bounded() {
        let gate = gate(&[], &[]);
        let host = ("host", "localhost");
        let room = HEADER_BYTES_MAX - "host".len() - "localhost".len() - 1;
        for (bytes, fits) in [(room - 1, true), (room, true), (room + 1, false)] {
            assert_eq!(
                passes(&gate, &[host, ("x", &"a".repeat(bytes))]),
                fits,
                "{bytes}"
            );
        }
    }

    #[test]
    fn a_forwarded_address_counts_only_from_a_trusted_proxy() {
        let gate = gate(&[], &["10.0.0.0/8"]);
        let peer = |remote: &str, forwarded: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            gate.sender(&headers, remote.parse().unwrap()).to_string()
        };
        assert_eq!(peer("192.0.2.1", "198.51.100.1"), "192.0.2.1");
        assert_eq!(peer("10.0.0.1", "198.51.100.1"), "198.51.100.1");
        assert_eq!(peer("10.0.0.1", "127.0.0.1, 198.51.100.1"), "198.51.100.1");
        assert_eq!(peer("10.0.0.1", "198.51.100.1, 10.0.0.2"), "198.51.100.1");
        assert_eq!(peer("10.0.0.1", "garbage"), "10.0.0.1");
        for (ip, many) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.8.0.1", true),
            ("10.0.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(gate.speaks_for_many(ip.parse().unwrap()), many, "{ip}");
        }
    }

    #[test]
    fn tls_before_the_hub_is_believed_of_a_proxy_and_of_this_machine() {
        let gate = gate(&[], &["10.0.0.0/8"]);
        for (remote, proto, expected) in [
            ("10.0.0.1", "https", true),
            ("127.0.0.1", "https", true),
            ("10.0.0.1", "http", false),
            ("192.0.2.1", "https", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", proto.parse().unwrap());
            let remote = remote.parse().unwrap();
            let told = gate.came_over_tls(&headers, remote);
            assert_eq!(told, expected, "{proto} by {remote}");
        }
    }

    #[test]
    fn an_operation_is_not_run_for_head() {
        let request = Request::builder()
            .method("HEAD")
            .uri("/api/v1/messages")
            .header("host", "localhost");
        let local = "127.0.0.1:1".parse().unwrap();
        assert!(matches!(
            gate(&[], &[]).check(&request.body(()).unwrap(), local),
            Err(Failure::MethodNotAllowed)
        ));
    }
}
