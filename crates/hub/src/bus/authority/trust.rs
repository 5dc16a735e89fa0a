//! Whom the director lets in, at one moment: read from the files, made into a TLS configuration, asked about a peer.
//!
//! A chain is verified by rustls. What rustls does not know is asked here: whether the certificate stands in the list,
//! not revoked, and was signed by an authority that is trusted and has not expired (which TLS does not ask of roots).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use switchboard_core::Timestamp;

use super::clock::Clock;
use super::error::AuthorityError;
use super::folder::{self, Folder};
use super::index::{Record, Serial};
use super::name::{Name, Role};
use super::refused::Refused;
use super::registrar::SOON;
use super::seen::{Kept, Seen};
use super::stored::{
    PEM_BYTES_MAX, read_authorities, read_certificates, read_director, read_index, useful,
};

/// Who a peer is, by its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub name: Name,
    pub role: Role,
    pub serial: Serial,
    pub not_after: Timestamp,
}

/// The files at one moment.
pub(super) struct Trust {
    pub config: Arc<ServerConfig>,
    pub known: Arc<Known>,
    /// The director's certificate ends then.
    pub director_ends_at: Timestamp,
}

/// Certificates and authorities that count, or counted.
#[derive(Debug)]
pub(super) struct Known {
    records: HashMap<Serial, Record>,
    authorities: HashMap<Serial, Timestamp>,
}

impl Trust {
    pub fn load(folder: &Folder, clock: &Clock) -> Result<Trust, AuthorityError> {
        let now = clock.now();
        let authorities = read_authorities(folder)?.ok_or_else(|| AuthorityError::NotMade {
            folder: folder.path().to_owned(),
        })?;
        let chain = read_certificates(folder, folder::CHAIN)?.unwrap_or_default();
        let chain = useful(chain, &authorities, now);
        let missing = || AuthorityError::Missing {
            path: folder.join(folder::DIRECTOR),
        };
        let director = read_director(folder)?.ok_or_else(missing)?;
        let text = folder.read(folder::DIRECTOR, PEM_BYTES_MAX)?;
        let key = PrivateKeyDer::from_pem_slice(text.ok_or_else(missing)?.as_bytes()).map_err(
            |error| AuthorityError::Unreadable {
                path: folder.join(folder::DIRECTOR),
                reason: format!("there is no key in it ({error})"),
            },
        )?;
        let known = Arc::new(Known {
            records: read_index(folder)?
                .records
                .into_iter()
                .map(|record| (record.serial.clone(), record))
                .collect(),
            authorities: authorities
                .iter()
                .map(|kept| (kept.seen.serial.clone(), kept.seen.not_after))
                .collect(),
        });
        let live: Vec<_> = authorities
            .into_iter()
            .filter(|kept| kept.seen.not_after > now)
            .collect();
        let (director_ends_at, shown) = (director.not_after, shown(director, chain));
        let config = configure(&live, shown, key, &known, clock).map_err(|reason| {
            AuthorityError::Unfit {
                folder: folder.path().to_owned(),
                reason,
            }
        })?;
        Ok(Trust {
            config: Arc::new(config),
            known,
            director_ends_at,
        })
    }

    pub fn director_ends_soon(&self, now: Timestamp) -> bool {
        self.director_ends_at <= now + SOON
    }
}

impl Known {
    /// Who shows this certificate, whose chain was verified already.
    pub fn identify(&self, leaf: &CertificateDer<'_>, now: Timestamp) -> Result<Identity, Refused> {
        let seen = Seen::read(leaf).map_err(|_| Refused::Unreadable)?;
        let record = self.records.get(&seen.serial);
        let record = record.ok_or_else(|| Refused::Unknown(seen.serial.clone()))?;
        // The list and the certificate were written together.
        if seen.member.as_ref() != Some(&(record.name.clone(), record.role)) {
            return Err(Refused::Unreadable);
        }
        let identity = Identity {
            name: record.name.clone(),
            role: record.role,
            serial: seen.serial,
            not_after: record.not_after.min(seen.not_after),
        };
        self.standing(&identity, now)?;
        Ok(identity)
    }

    /// Whether someone who was let in may stay.
    pub fn standing(&self, identity: &Identity, now: Timestamp) -> Result<(), Refused> {
        let serial = &identity.serial;
        let name = || identity.name.clone();
        let Some(record) = self.records.get(serial) else {
            return Err(Refused::Unknown(serial.clone()));
        };
        if record.revoked.is_some() {
            return Err(Refused::Revoked(name()));
        }
        if identity.not_after <= now || record.not_after <= now {
            return Err(Refused::Expired(name()));
        }
        match self.authorities.get(&record.issuer) {
            Some(not_after) if *not_after > now => Ok(()),
            Some(_) | None => Err(Refused::Orphaned(name())),
        }
    }

    /// The next instant at which something ends by itself.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let records = self.records.values().map(|record| record.not_after);
        let ends = records.chain(self.authorities.values().copied());
        ends.filter(|at| *at > now).min()
    }
}

fn shown(director: Seen, chain: Vec<Kept>) -> Vec<CertificateDer<'static>> {
    let chain = chain.into_iter().map(|kept| kept.seen.der);
    std::iter::once(director.der).chain(chain).collect()
}

fn configure(
    live: &[Kept],
    shown: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    known: &Arc<Known>,
    clock: &Clock,
) -> Result<ServerConfig, String> {
    let mut roots = RootCertStore::empty();
    for kept in live {
        let added = roots.add(kept.seen.der.clone());
        added.map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("every authority has expired; create a new one with 'switchboard cert rotate --authority'".to_owned());
    }
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let chains = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| error.to_string())?;
    let verifier = Arc::new(Verifier {
        chains,
        known: known.clone(),
        clock: clock.clone(),
    });
    // Both ends are ours, or as young as we are.
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(clock.clone()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(shown, key)
        .map_err(|error| error.to_string())?;
    // A session that is taken up again shows no certificate, and connections last long anyway.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Asks rustls about the chain, then the list about the certificate.
#[derive(Debug)]
struct Verifier {
    chains: Arc<dyn ClientCertVerifier>,
    known: Arc<Known>,
    clock: Clock,
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .chains
            .verify_client_cert(end_entity, intermediates, now)?;
        match self.known.identify(end_entity, self.clock.now()) {
            Ok(_) => Ok(verified),
            Err(refused) => Err(told(&refused).into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// What the peer learns of it, as an alert.
fn told(refused: &Refused) -> CertificateError {
    match refused {
        Refused::Revoked(_) => CertificateError::Revoked,
        Refused::Expired(_) => CertificateError::Expired,
        Refused::Orphaned(_) | Refused::Unknown(_) => CertificateError::UnknownIssuer,
        Refused::NoCertificate | Refused::Unreadable | Refused::TooSlow | Refused::Handshake(_) => {
            CertificateError::ApplicationVerificationFailure
        }
    }
}
