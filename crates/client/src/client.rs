//! The handle on a hub, and how it is set up.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;
use switchboard_wire::Fingerprint;
use switchboard_wire::signature::{AgentKey, MasterKey};

use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::transport::{Signer, Transport};
use crate::trust::Trust;

/// A hub that can be called. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) transport: Arc<Transport>,
}

impl Client {
    /// A client with the defaults; [`Client::builder`] has the choices.
    pub fn new(url: &str) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Starts setting up a client for the hub at `url` (`http://127.0.0.1:7373`).
    pub fn builder(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            agent: None,
            token: None,
            proven_by: None,
            trust: Trust::default(),
            retry: RetryPolicy::default(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
        }
    }

    /// The same client, whose mutating calls carry `key` instead of a fresh one.
    ///
    /// For callers that keep a key across their own restarts: the same key with the same body acts once.
    pub fn with_idempotency_key(&self, key: impl Into<String>) -> Self {
        let transport = Transport {
            key: Some(key.into()),
            ..Transport::clone(&self.transport)
        };
        Self {
            transport: Arc::new(transport),
        }
    }

    /// Where the hub's broker is if it listens on this port.
    pub fn broker_at(&self, port: u16) -> String {
        let base = &self.transport.base;
        let scheme = base.scheme().replacen("http", "ws", 1);
        format!("{scheme}://{}:{port}", base.host_str().unwrap_or_default())
    }

    /// Where this client sends to.
    pub fn address(&self) -> String {
        self.transport.address()
    }
}

/// The choices of a [`Client`].
#[derive(Clone)]
pub struct Builder {
    url: String,
    agent: Option<(String, String)>,
    token: Option<String>,
    proven_by: Option<MasterKey>,
    trust: Trust,
    retry: RetryPolicy,
    timeout: Duration,
    connect_timeout: Duration,
}

impl Builder {
    /// Signs every call as this agent, with the key that `switchboard agent add` printed.
    pub fn agent(mut self, id: impl Into<String>, key: impl Into<String>) -> Self {
        self.agent = Some((id.into(), key.into()));
        self
    }

    /// Sends this bearer token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sends nothing before the hub has proven that it has this master key, each time anew.
    ///
    /// For an address that was found and may be somebody else's by now. It has to be a number, not a name.
    pub fn proven_by(mut self, key: MasterKey) -> Self {
        self.proven_by = Some(key);
        self
    }

    /// Trusts these certificates (PEM) and what they signed, and nothing else.
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.trust.authorities.push(pem.into());
        self
    }

    /// Trusts the certificate with this fingerprint, whatever names it has, and nothing else.
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.trust.fingerprint = Some(fingerprint);
        self
    }

    /// How transient errors are retried.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// How long one try may take, beyond what it asked the hub to wait.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long connecting may take.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    pub fn build(self) -> Result<Client, Error> {
        let base = address(&self.url)?;
        let mut http = reqwest::Client::builder()
            .connect_timeout(self.connect_timeout)
            .user_agent(concat!("switchboard-client/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            // Retrying is done here, with the idempotency key and the waits in view.
            .retry(reqwest::retry::never());
        if loopback(&base) || self.proven_by.is_some() {
            http = http.no_proxy();
        }
        if base.scheme() == "http" {
            http = http.tls_certs_only([]);
        } else if let Some(config) = self.trust.config()? {
            http = http.tls_backend_preconfigured(config);
        }
        // Whoever set a provider first wins; ours is the one that the workspace builds with.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let http = http.build().map_err(|error| {
            Error::Invalid(format!("the HTTP client cannot be created: {error}"))
        })?;
        let token = self.token.map(|token| bearer(&token)).transpose()?;
        let signer = self
            .agent
            .map(|(agent, key)| signer(agent, &key))
            .transpose()?;
        let prover = self
            .proven_by
            .map(|key| Ok::<_, Error>((key, socket(&base)?)))
            .transpose()?;
        let (retry, timeout) = (self.retry, self.timeout);
        let transport = Transport {
            http,
            base,
            signer,
            token,
            prover,
            retry,
            timeout,
            key: None,
        };
        Ok(Client {
            transport: Arc::new(transport),
        })
    }
}

pub(crate) fn address(url: &str) -> Result<Url, Error> {
    let wrong = || {
        Error::Invalid(format!(
            "'{url}' is not a hub's address; write it like http://127.0.0.1:7373"
        ))
    };
    // `127.0.0.1:7373` is what people type.
    let full = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    let url = Url::parse(&full).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https")
        || url.host_str().is_none()
        || url.query().is_some()
    {
        return Err(wrong());
    }
    Ok(url)
}

/// The address that connections go to.
fn socket(url: &Url) -> Result<SocketAddr, Error> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let ip = host.parse::<IpAddr>();
    let socket = ip.ok().zip(url.port_or_known_default());
    socket.map(SocketAddr::from).ok_or_else(|| {
        Error::Invalid(format!(
            "'{url}' has no address at which a hub's identity can be verified; write it like http://127.0.0.1:7373"
        ))
    })
}

/// A proxy from the environment is never meant for a hub on this machine.
fn loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn signer(agent: String, key: &str) -> Result<Signer, Error> {
    let key = AgentKey::from_text(key).ok_or_else(|| {
        Error::Invalid(format!(
            "the key of {agent} is not a signing key; create one with 'switchboard agent add {agent}'"
        ))
    })?;
    Ok(Signer { agent, key })
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| Error::Invalid("the token has characters that cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (written, meant) in [
            ("127.0.0.1:7373", "http://127.0.0.1:7373"),
            ("http://localhost:7373/", "http://localhost:7373"),
            (
                "https://hub.example.com/swarm/",
                "https://hub.example.com/swarm",
            ),
        ] {
            assert_eq!(Client::new(written).unwrap().address(), meant);
        }
        for written in ["", "ftp://x", "http://", "http://x?y=1"] {
            assert!(
                matches!(Client::new(written), Err(Error::Invalid(_))),
                "{written}"
            );
        }
    }

    #[test]
    fn what_is_no_key_is_refused_before_anything_is_sent() {
        let built = Client::builder("http://localhost:1")
            .agent("a", "secret")
            .build();
        assert!(matches!(built, Err(Error::Invalid(_))));
    }

    #[test]
    fn a_secret_is_never_printed() {
        let client = Client::builder("http://localhost:1")
            .agent("a", "0123456789abcdef".repeat(4))
            .token("hush-token")
            .build()
            .unwrap();
        let printed = format!("{client:?}");
        assert!(
            !printed.contains("hush") && !printed.contains("0123456789abcdef"),
            "{printed}"
        );
    }
}
