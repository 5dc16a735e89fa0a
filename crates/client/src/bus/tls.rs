//! Mutual TLS towards the director: the three files that `switchboard cert issue` writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// The files do not serve for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate {} cannot be read: {reason}; create one with 'switchboard cert issue'", path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error("the key {} cannot be read: {reason}; create one with 'switchboard cert issue'", path.display())]
    Key { path: PathBuf, reason: String },
    #[error("the certificate and the key do not match: {0}")]
    Unfit(String),
}

/// The name that every director's certificate has, whatever its address is.
///
/// Only a director gets a certificate with names from its authority, so this one is enough to know it by.
pub const DIRECTOR_NAME: &str = "director.agentbus";

/// Certificates in one file; more is no file of ours.
const CERTIFICATES_MAX: usize = 16;

/// How to speak TLS with the certificate and key of a sender, to a director of this authority.
///
/// To be read anew with each connection, so that files that were replaced are used.
pub fn client_config(cert: &Path, key: &Path, ca: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(ca)? {
        roots
            .add(authority)
            .map_err(|error| TlsError::Certificate {
                path: ca.to_owned(),
                reason: error.to_string(),
            })?;
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::Key {
        path: key.to_owned(),
        reason: error.to_string(),
    })?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| TlsError::Unfit(error.to_string()))?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(cert)?, private)
        .map_err(|error| TlsError::Unfit(error.to_string()))?;
    Ok(Arc::new(config))
}

/// Whom to expect at the other end.
pub fn director() -> ServerName<'static> {
    ServerName::try_from(DIRECTOR_NAME).expect("it is the name of a host")
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |reason: String| TlsError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let found =
        CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    let found: Vec<_> = found
        .take(CERTIFICATES_MAX)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(error.to_string()))?;
    if found.is_empty() {
        return Err(unreadable("there is no certificate in it".to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_serve_is_named() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (none, wrong) = (here.join("no-such.pem"), here.join("Cargo.toml"));
        for path in [&none, &wrong] {
            let said = client_config(path, path, path).unwrap_err().to_string();
            assert!(said.contains(&path.display().to_string()), "{said}");
        }
        assert_eq!(director().to_str(), DIRECTOR_NAME);
    }
}
