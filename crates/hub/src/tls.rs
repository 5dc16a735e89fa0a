//! TLS: a certificate from files, or one made for a trial.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::{Http, Tls};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the certificate {}: {reason}", path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error("cannot read the key {}: {reason}", path.display())]
    Key { path: PathBuf, reason: String },
    #[error("certificate and key do not serve for TLS")]
    Unfit(#[source] rustls::Error),
    #[error("cannot make a certificate")]
    Making(#[source] rcgen::Error),
}

/// A certificate that was made here; clients must be told to trust it.
pub struct SelfMade {
    pub pem: String,
}

/// What accepts TLS connections, if any are wanted.
pub fn acceptor(http: &Http) -> Result<(Option<TlsAcceptor>, Option<SelfMade>), TlsError> {
    match &http.tls {
        Tls::Off => Ok((None, None)),
        Tls::Files { cert, key } => {
            let acceptor = build(read_certificates(cert)?, read_key(key)?)?;
            Ok((Some(acceptor), None))
        }
        Tls::SelfSigned => {
            let (certificate, key, pem) = make(http)?;
            Ok((Some(build(vec![certificate], key)?), Some(SelfMade { pem })))
        }
    }
}

fn build(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(TlsError::Unfit)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |reason: String| TlsError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let found =
        CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    let chain: Vec<_> = found
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(error.to_string()))?;
    if chain.is_empty() {
        return Err(unreadable("there is no certificate in it".to_owned()));
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::Key {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// For every name that the hub may be called by.
fn make(
    http: &Http,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>, String), TlsError> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    let ip: IpAddr = http.listen.ip();
    if !ip.is_unspecified() {
        names.push(ip.to_string());
    }
    names.extend(http.allowed_hosts.iter().cloned());
    names.sort();
    names.dedup();
    let made = rcgen::generate_simple_self_signed(names).map_err(TlsError::Making)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((made.cert.der().clone(), key.into(), made.cert.pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_for_a_trial_and_read_from_files() {
        let http = Http {
            tls: Tls::SelfSigned,
            allowed_hosts: vec!["hub.example".into()],
            ..Http::default()
        };
        let (acceptor_made, made) = acceptor(&http).unwrap();
        assert!(acceptor_made.is_some() && made.unwrap().pem.contains("BEGIN CERTIFICATE"));

        let home = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (cert, key) = (home.path().join("hub.pem"), home.path().join("hub.key"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let http = Http {
            tls: Tls::Files {
                cert: cert.clone(),
                key: key.clone(),
            },
            ..Http::default()
        };
        assert!(acceptor(&http).unwrap().0.is_some());

        let swapped = Http {
            tls: Tls::Files {
                cert: key,
                key: cert,
            },
            ..Http::default()
        };
        assert!(matches!(
            acceptor(&swapped),
            Err(TlsError::Certificate { .. })
        ));
    }

    #[test]
    fn a_missing_file_is_named() {
        let http = Http {
            tls: Tls::Files {
                cert: "/no/such.pem".into(),
                key: "/no/such.key".into(),
            },
            ..Http::default()
        };
        let said = acceptor(&http).err().unwrap().to_string();
        assert!(said.contains("/no/such.pem"), "{said}");
    }

    #[test]
    fn without_tls_there_is_nothing_to_accept_it() {
        assert!(acceptor(&Http::default()).unwrap().0.is_none());
    }
}
