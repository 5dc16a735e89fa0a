//! TLS: a certificate from files, or one made for a trial.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use switchboard_wire::Fingerprint;
use tokio_rustls::TlsAcceptor;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{X509Version, parse_x509_certificate};

use crate::config::{Http, Tls};
use crate::data_dir::{DataDir, DataDirError};
use crate::http::name_of;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the certificate {}: {reason}", path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error("cannot read the key {}: {reason}", path.display())]
    Key { path: PathBuf, reason: String },
    #[error("the key is not that of the certificate")]
    Mismatch,
    #[error("the certificate is not of X.509 version 3; create one with a subjectAltName")]
    Version,
    #[error("certificate and key cannot be used for TLS")]
    Unfit(#[source] rustls::Error),
    #[error("cannot create a certificate")]
    Making(#[source] rcgen::Error),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
}

/// Where a certificate that was made for a trial is kept, for this hub and for its clients.
const CERT_FILE: &str = "tls-cert.pem";
const KEY_FILE: &str = "tls-key.pem";

/// What accepts TLS connections, and what others know it by.
pub struct Served {
    pub acceptor: TlsAcceptor,
    pub fingerprint: Fingerprint,
    /// What its public key is known by, which a renewed certificate keeps.
    pub public_key: Fingerprint,
    /// No authority vouches for it.
    pub is_self_signed: bool,
}

/// With which certificate TLS is served, if it is.
pub fn served(http: &Http, data_dir: &DataDir) -> Result<Option<Served>, TlsError> {
    match &http.tls {
        Tls::Off => Ok(None),
        Tls::Files { cert, key } => build(read_certificates(cert)?, read_key(key)?).map(Some),
        Tls::SelfSigned => {
            let (cert, key) = (
                data_dir.path().join(CERT_FILE),
                data_dir.path().join(KEY_FILE),
            );
            // Clients that trust it go on trusting it, as long as the hub is called by the same names.
            let names = names(http);
            if !is_for(&cert, &names) || !key.is_file() {
                make(data_dir, &names)?;
            }
            build(read_certificates(&cert)?, read_key(&key)?).map(Some)
        }
    }
}

/// The names in a certificate that was given are the hub's own, too.
pub fn add_names(http: &mut Http) -> Result<(), TlsError> {
    let Tls::Files { cert, .. } = &http.tls else {
        return Ok(());
    };
    let chain = read_certificates(cert)?;
    let (found, names) = names_in(&chain[0]);
    if found == 0 {
        tracing::warn!(
            "the certificate {} has no names (subjectAltName), so most programs refuse it; create one with: openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout key.pem -out cert.pem -subj /CN=NAME -addext subjectAltName=DNS:NAME",
            cert.display()
        );
    }
    http.allowed_hosts.extend(names);
    Ok(())
}

/// What the public key in a certificate is known by.
pub fn public_key(certificate: &[u8]) -> Option<Fingerprint> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    Some(Fingerprint::of(parsed.public_key().raw))
}

/// How many names a certificate has, and those that a program may call the hub by.
fn names_in(certificate: &[u8]) -> (usize, Vec<String>) {
    let parsed = parse_x509_certificate(certificate).ok();
    let san = parsed
        .as_ref()
        .and_then(|(_, parsed)| parsed.subject_alternative_name().ok()?);
    let all = san.map_or(&[][..], |san| &san.value.general_names);
    let names = all.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) if !name.starts_with('*') => Some((*name).to_owned()),
        _ => None,
    });
    (all.len(), names.collect())
}

fn build(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Served, TlsError> {
    let fingerprint = Fingerprint::of(&chain[0]);
    let public_key = public_key(&chain[0]).unwrap_or(fingerprint);
    let parsed = parse_x509_certificate(&chain[0]).map(|(_, parsed)| parsed);
    if parsed
        .as_ref()
        .is_ok_and(|parsed| parsed.version() != X509Version::V3)
    {
        return Err(TlsError::Version);
    }
    let is_self_signed = parsed.is_ok_and(|parsed| parsed.subject() == parsed.issuer());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
            error => TlsError::Unfit(error),
        })?;
    Ok(Served {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        fingerprint,
        public_key,
        is_self_signed,
    })
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
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        let is_encrypted = || {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.contains("ENCRYPTED")
        };
        let reason = match error {
            pem::Error::NoItemsFound if is_encrypted() => {
                "it has a passphrase; remove it with 'openssl pkey -in KEY -out NEW', or create the key with -nodes".to_owned()
            }
            pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
            error => error.to_string(),
        };
        TlsError::Key {
            path: path.to_owned(),
            reason,
        }
    })
}

/// Every name that the hub may be called by.
fn names(http: &Http) -> Vec<String> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    let ip = http.listen.ip();
    if !ip.is_unspecified() {
        names.push(ip.to_string());
    }
    let plain = |host: &String| name_of(host).trim_matches(['[', ']']).to_owned();
    names.extend(http.allowed_hosts.iter().map(plain));
    names.sort();
    names.dedup();
    names
}

/// The line above a certificate that was made here.
fn label(names: &[String]) -> String {
    format!("Made by switchboard for {}", names.join(", "))
}

fn is_for(cert: &Path, names: &[String]) -> bool {
    std::fs::read_to_string(cert).is_ok_and(|text| text.lines().next() == Some(&label(names)))
}

fn make(data_dir: &DataDir, names: &[String]) -> Result<(), TlsError> {
    let made = rcgen::generate_simple_self_signed(names).map_err(TlsError::Making)?;
    let cert = format!("{}\n{}", label(names), made.cert.pem());
    data_dir.keep(KEY_FILE, made.signing_key.serialize_pem().as_bytes())?;
    data_dir.keep(CERT_FILE, cert.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(hosts: &[&str]) -> Http {
        let allowed_hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Http {
            tls: Tls::SelfSigned,
            allowed_hosts,
            ..Http::default()
        }
    }

    #[test]
    fn a_trial_certificate_is_kept_for_as_long_as_the_names_stay() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(home.path()).unwrap();
        let cert = || std::fs::read_to_string(home.path().join(CERT_FILE)).unwrap();
        assert!(served(&trial(&["hub.example"]), &dir).unwrap().is_some());
        let first = cert();
        assert!(first.contains("BEGIN CERTIFICATE"));
        served(&trial(&["hub.example"]), &dir).unwrap();
        assert_eq!(cert(), first);
        served(&trial(&["other.example"]), &dir).unwrap();
        assert_ne!(cert(), first);
    }

    #[test]
    fn a_certificate_is_read_from_files_and_a_wrong_one_is_named() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(home.path()).unwrap();
        served(&trial(&[]), &dir).unwrap();
        let files = |cert: &str, key: &str| {
            let tls = Tls::Files {
                cert: home.path().join(cert),
                key: home.path().join(key),
            };
            served(
                &Http {
                    tls,
                    ..Http::default()
                },
                &dir,
            )
            .map(|served| served.is_some())
        };
        assert!(files(CERT_FILE, KEY_FILE).unwrap());
        assert!(matches!(
            files(KEY_FILE, CERT_FILE),
            Err(TlsError::Certificate { .. })
        ));
        assert!(matches!(
            files(CERT_FILE, CERT_FILE),
            Err(TlsError::Key { .. })
        ));
        let said = files("no-such.pem", KEY_FILE).unwrap_err().to_string();
        assert!(said.contains("no-such.pem"), "{said}");
    }

    #[test]
    fn without_tls_there_is_nothing_to_accept_it() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(home.path()).unwrap();
        assert!(served(&Http::default(), &dir).unwrap().is_none());
    }
}
