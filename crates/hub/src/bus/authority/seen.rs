//! What a certificate says: read from our own files, or from a peer whose chain was verified before.

use std::net::IpAddr;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use switchboard_core::Timestamp;
use switchboard_wire::signature::to_hex;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::index::Serial;
use super::name::{Name, Role};

/// A certificate, with what of it matters here.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub der: CertificateDer<'static>,
    pub serial: Serial,
    /// The distinguished names, as encoded.
    pub subject: Vec<u8>,
    pub issuer: Vec<u8>,
    pub public_key: Vec<u8>,
    pub not_after: Timestamp,
    /// The hosts that it is for.
    pub hosts: Vec<String>,
    pub member: Option<(Name, Role)>,
}

/// A certificate of one of our files, with the text that it was written as.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub seen: Seen,
    pub pem: String,
}

/// Certificates in one file; ours never have more.
const CERTIFICATES_PER_FILE_MAX: usize = 16;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

impl Seen {
    pub fn read(der: &CertificateDer<'_>) -> Result<Seen, String> {
        let (rest, parsed) = X509Certificate::from_der(der)
            .map_err(|error| format!("it holds no certificate ({error})"))?;
        if !rest.is_empty() {
            return Err("there is more data after the certificate".to_owned());
        }
        let (mut hosts, mut member) = (Vec::new(), None);
        let names = parsed
            .subject_alternative_name()
            .map_err(|error| format!("its names cannot be read ({error})"))?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(host) => hosts.push((*host).to_owned()),
                GeneralName::IPAddress(bytes) => hosts.extend(address(bytes)),
                // Two URIs, one of them not ours, is nothing that we issue.
                GeneralName::URI(uri) if member.is_none() => member = Name::from_uri(uri),
                GeneralName::URI(_) => return Err("it is for more than one name".to_owned()),
                _ => {}
            }
        }
        Ok(Seen {
            der: der.clone().into_owned(),
            serial: Serial::new(to_hex(parsed.raw_serial())),
            subject: parsed.subject().as_raw().to_vec(),
            issuer: parsed.issuer().as_raw().to_vec(),
            public_key: parsed.public_key().subject_public_key.data.to_vec(),
            not_after: Timestamp(parsed.validity().not_after.timestamp().saturating_mul(1000)),
            hosts,
            member,
        })
    }

    pub fn is_signed_by(&self, authority: &Seen) -> bool {
        self.issuer == authority.subject
    }
}

/// Every certificate of a file's text; whatever else is in it is left alone.
pub(super) fn certificates(text: &str) -> Result<Vec<Kept>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let section = &rest[begin..];
        let end = section
            .find(END)
            .ok_or("a certificate in it has no END line")?
            + END.len();
        let pem = format!("{}\n", &section[..end]);
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| format!("it holds no certificate ({error})"))?;
        let seen = Seen::read(&der)?;
        found.push(Kept { seen, pem });
        if found.len() > CERTIFICATES_PER_FILE_MAX {
            return Err(format!(
                "it holds more than {CERTIFICATES_PER_FILE_MAX} certificates"
            ));
        }
        rest = &section[end..];
    }
    Ok(found)
}

fn address(bytes: &[u8]) -> Option<String> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(address.to_string())
}
