//! Makes keys and certificates: ECDSA on P-256, nothing else.
//!
//! Whether one may be made, and where it is kept, is decided by the registrar.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use switchboard_core::Timestamp;
use switchboard_wire::signature::to_hex;

use super::error::AuthorityError;
use super::index::Serial;
use super::name::{Name, Role};
use super::seen::Kept;

/// A certificate that was just made, and its key.
pub(super) struct Minted {
    pub serial: Serial,
    pub cert: String,
    pub key: KeyPair,
    pub not_after: Timestamp,
}

/// Whoever signs: the authority's certificate with the key that belongs to it.
pub(super) struct Signer {
    issuer: Issuer<'static, KeyPair>,
    not_after: Timestamp,
}

/// From when until when a certificate is good.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub now: Timestamp,
    pub lasts: Duration,
}

/// The name that every director's certificate has, besides those of its hosts.
pub const DIRECTOR_NAME: &str = "director.agentbus";

/// Clocks that are behind by no more accept a new certificate at once.
const SKEW: Duration = Duration::from_secs(5 * 60);
const SERIAL_BYTES: usize = 10;
/// No certificate lasts beyond the years that have four digits.
const LATEST: Timestamp = Timestamp(253_370_764_800_000);

impl Signer {
    pub fn new(authority: &Kept, key: KeyPair) -> Result<Signer, AuthorityError> {
        Ok(Signer {
            issuer: Issuer::from_ca_cert_der(&authority.seen.der, key)?,
            not_after: authority.seen.not_after,
        })
    }
}

/// A new authority, signed by itself.
pub(super) fn authority(span: Span) -> Result<Minted, AuthorityError> {
    let key = fresh_key()?;
    let (serial, number) = fresh_serial()?;
    let mut params = authority_params(&format!("Switchboard authority {serial}"));
    params.serial_number = Some(number);
    let not_after = last(&mut params, span, LATEST);
    let cert = params.self_signed(&key)?.pem();
    Ok(Minted {
        serial,
        cert,
        key,
        not_after,
    })
}

/// The new authority, vouched for by the one before: who trusts the old one can follow.
pub(super) fn cross(
    new: &Kept,
    key: &KeyPair,
    signer: &Signer,
    now: Timestamp,
) -> Result<String, AuthorityError> {
    let lasts = new.seen.not_after.since(now);
    let (_, number) = fresh_serial()?;
    let mut params = authority_params(&format!("Switchboard authority {}", new.seen.serial));
    params.serial_number = Some(number);
    params.use_authority_key_identifier_extension = true;
    last(&mut params, Span { now, lasts }, signer.not_after);
    Ok(params.signed_by(key, &signer.issuer)?.pem())
}

/// The certificate that the director shows to whoever connects.
pub(super) fn director(
    hosts: &[String],
    span: Span,
    signer: &Signer,
) -> Result<Minted, AuthorityError> {
    let mut params = CertificateParams::new(hosts)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf(params, "Switchboard director", span, signer)
}

/// The certificate of a worker or an operator.
pub(super) fn member(
    name: &Name,
    role: Role,
    span: Span,
    signer: &Signer,
) -> Result<Minted, AuthorityError> {
    let mut params = CertificateParams::default();
    let uri = name.to_uri(role).try_into()?;
    params.subject_alt_names = vec![SanType::URI(uri)];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    leaf(params, &name.common_name(), span, signer)
}

fn leaf(
    mut params: CertificateParams,
    common_name: &str,
    span: Span,
    signer: &Signer,
) -> Result<Minted, AuthorityError> {
    let key = fresh_key()?;
    let (serial, number) = fresh_serial()?;
    call(&mut params, common_name);
    params.serial_number = Some(number);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let not_after = last(&mut params, span, signer.not_after);
    let cert = params.signed_by(&key, &signer.issuer)?.pem();
    Ok(Minted {
        serial,
        cert,
        key,
        not_after,
    })
}

fn authority_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    call(&mut params, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn call(params: &mut CertificateParams, common_name: &str) {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
}

/// Sets when it begins and ends, the end cut at `latest`, and returns the end.
fn last(params: &mut CertificateParams, span: Span, latest: Timestamp) -> Timestamp {
    let whole_seconds = |at: Timestamp| u64::try_from(at.0 / 1000).unwrap_or(0);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let from = whole_seconds((span.now - SKEW).min(LATEST));
    let until = whole_seconds((span.now + span.lasts).min(latest).min(LATEST));
    params.not_before = epoch + Duration::from_secs(from);
    params.not_after = epoch + Duration::from_secs(until);
    Timestamp(i64::try_from(until * 1000).unwrap_or(i64::MAX))
}

fn fresh_key() -> Result<KeyPair, AuthorityError> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

/// A number that nobody guesses, always of the same length.
fn fresh_serial() -> Result<(Serial, SerialNumber), AuthorityError> {
    let mut bytes = [0; SERIAL_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| AuthorityError::Making {
        reason: "the system provides no random bytes".to_owned(),
    })?;
    // Neither a sign nor a leading zero, so that its encoding is its bytes.
    bytes[0] = (bytes[0] & 0x3f) | 0x40;
    Ok((
        Serial::new(to_hex(&bytes)),
        SerialNumber::from_slice(&bytes),
    ))
}
