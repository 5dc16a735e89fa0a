//! HTTPS to a node whose certificate is known by its public key, and by nothing else.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use switchboard_wire::Fingerprint;

use crate::tls;

const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// A client for one address. Without a pin the machine's own authorities vouch for its certificate.
pub fn client(endpoint: &str, pin: Option<Fingerprint>) -> Result<reqwest::Client, String> {
    // Whoever set a provider first wins; ours is the one that the workspace builds with.
    let _ = aws_lc_rs::default_provider().install_default();
    let mut http = reqwest::Client::builder()
        .connect_timeout(CONNECTS_WITHIN)
        .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never());
    if endpoint.starts_with("http:") {
        http = http.no_proxy().tls_certs_only([]);
    } else if let Some(pin) = pin {
        http = http.tls_backend_preconfigured(config(pin)?);
    }
    http.build().map_err(|error| error.to_string())
}

fn config(pin: Fingerprint) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Pinned {
        pin,
        provider: Arc::clone(&provider),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

#[derive(Debug)]
struct Pinned {
    pin: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match tls::public_key(end_entity) == Some(self.pin) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn a_certificate_is_known_by_its_key_however_often_it_is_renewed() {
        let made = |key: &KeyPair, name: &str| {
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            params.self_signed(key).unwrap().der().clone()
        };
        let (ours, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let verifier = Pinned {
            pin: tls::public_key(&made(&ours, "a.example")).unwrap(),
            provider: Arc::new(aws_lc_rs::default_provider()),
        };
        let is_trusted = |certificate: &CertificateDer<'_>| {
            let name = ServerName::try_from("b.example").unwrap();
            let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
            let verified = verifier.verify_server_cert(certificate, &[], &name, &[], now);
            verified.is_ok()
        };
        assert!(is_trusted(&made(&ours, "b.example")));
        assert!(!is_trusted(&made(&other, "b.example")));
        assert!(!is_trusted(&CertificateDer::from(vec![1, 2, 3])));
    }
}
