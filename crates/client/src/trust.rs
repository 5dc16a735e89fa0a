//! Whose certificate is trusted, where it is not for the machine's own authorities to say.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    SignatureScheme,
};
use switchboard_wire::Fingerprint;

use crate::error::Error;

/// What was named; the machine's authorities hold if nothing was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    pub authorities: Vec<Vec<u8>>,
    pub fingerprint: Option<Fingerprint>,
}

impl Trust {
    /// How to speak TLS with whom was named.
    pub fn config(&self) -> Result<Option<ClientConfig>, Error> {
        let Some(verifier) = self.verifier()? else {
            return Ok(None);
        };
        let provider = Arc::clone(&verifier.provider);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Some(config))
    }

    fn verifier(&self) -> Result<Option<Named>, Error> {
        let mut given = Vec::new();
        for pem in &self.authorities {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                given.push(certificate.map_err(|error| invalid(&error))?);
            }
        }
        if !self.authorities.is_empty() && given.is_empty() {
            return Err(invalid(&"there is none in it"));
        }
        if given.is_empty() && self.fingerprint.is_none() {
            return Ok(None);
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        let itself = given.iter().map(|der| Fingerprint::of(der)).collect();
        let (added, _) = roots.add_parsable_certificates(given);
        let signed = (added > 0).then(|| {
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build()
        });
        Ok(Some(Named {
            fingerprint: self.fingerprint,
            itself,
            signed: signed.transpose().map_err(|error| invalid(&error))?,
            provider,
        }))
    }
}

fn invalid(reason: &dyn fmt::Display) -> Error {
    Error::Invalid(format!("the certificate cannot be read: {reason}"))
}

/// Trusts one certificate by its fingerprint, others because they were given or signed by one that was.
#[derive(Debug)]
struct Named {
    fingerprint: Option<Fingerprint>,
    /// Those that were given.
    itself: Vec<Fingerprint>,
    signed: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = Fingerprint::of(end_entity);
        if self.fingerprint == Some(found) {
            return Ok(ServerCertVerified::assertion());
        }
        let Some(signed) = &self.signed else {
            return Err(other(found));
        };
        let verified =
            signed.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // `openssl req -x509` makes an authority, which is no certificate of a server by the book, and maybe without
            // names. Whoever gave this very certificate means it.
            Err(error) if self.itself.contains(&found) && !is_out_of_date(&error) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

fn is_out_of_date(error: &rustls::Error) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(
        error,
        rustls::Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }
        )
    )
}

/// Another certificate than the one that was expected.
#[derive(Debug, thiserror::Error)]
#[error("its fingerprint is {0}, not the one that was given")]
struct Other(Fingerprint);

fn other(found: Fingerprint) -> rustls::Error {
    let error = OtherError(Arc::new(Other(found)));
    rustls::Error::InvalidCertificate(CertificateError::Other(error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// As `openssl req -x509` makes it: an authority that signed itself.
    fn made(name: &str, until: i32) -> (String, CertificateDer<'static>) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(until, 1, 1);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        (made.pem(), made.der().clone())
    }

    fn is_trusted(trust: &Trust, certificate: &CertificateDer<'_>) -> bool {
        let name = ServerName::try_from("hub.example").unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        let verifier = trust.verifier().unwrap().expect("somebody is trusted");
        let verified = verifier.verify_server_cert(certificate, &[], &name, &[], now);
        verified.is_ok()
    }

    #[test]
    fn the_certificate_that_was_given_is_trusted_until_it_expires() {
        for (name, until, trusted) in [
            ("hub.example", 2100, true),
            ("other.example", 2100, true),
            ("hub.example", 2020, false),
        ] {
            let (pem, certificate) = made(name, until);
            let trust = Trust {
                authorities: vec![pem.into_bytes()],
                fingerprint: None,
            };
            assert_eq!(is_trusted(&trust, &certificate), trusted, "{name} {until}");
            let (_, other) = made(name, 2100);
            assert!(!is_trusted(&trust, &other), "{name} {until}");
        }
    }

    #[test]
    fn a_fingerprint_is_enough_and_no_other_will_do() {
        let (_, certificate) = made("other.example", 2020);
        let trust = Trust {
            authorities: Vec::new(),
            fingerprint: Some(Fingerprint::of(&certificate)),
        };
        assert!(is_trusted(&trust, &certificate));
        assert!(!is_trusted(&trust, &made("other.example", 2100).1));
    }

    #[test]
    fn what_holds_no_certificate_is_refused_and_without_any_the_machines_hold() {
        let trust = Trust {
            authorities: vec![b"nothing".to_vec()],
            fingerprint: None,
        };
        assert!(matches!(trust.verifier(), Err(Error::Invalid(_))));
        assert!(Trust::default().verifier().unwrap().is_none());
    }
}
