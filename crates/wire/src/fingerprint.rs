//! A certificate's fingerprint: by it a certificate is known without anybody who vouches for it.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

use crate::signature::{from_hex, to_hex};

/// The SHA-256 of a certificate in DER, or of the public key in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

const PREFIX: &str = "sha256:";

impl Fingerprint {
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let hash = digest::digest(&digest::SHA256, certificate);
        Fingerprint(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// In hexadecimal, without what stands before it.
    pub fn digits(&self) -> String {
        to_hex(&self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.digits())
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    /// As it is printed, or as `openssl x509 -fingerprint -sha256` prints it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().to_ascii_lowercase();
        let hex = text.strip_prefix("sha256 fingerprint=");
        let hex = hex.or(text.strip_prefix(PREFIX)).unwrap_or(&text);
        from_hex(&hex.replace(':', ""))
            .and_then(|bytes| bytes.try_into().ok())
            .map(Fingerprint)
            .ok_or("expected sha256: and 64 hexadecimal digits, as 'switchboard up' prints them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_printed_here_and_by_openssl() {
        let print = Fingerprint::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(print.to_string(), text);
        let hex = text.strip_prefix(PREFIX).unwrap();
        let pairs: Vec<&str> = (0..32).map(|n| &hex[2 * n..2 * n + 2]).collect();
        let colons = pairs.join(":").to_uppercase();
        for written in [
            text,
            hex,
            &colons,
            &format!("SHA256 Fingerprint={colons}\n"),
            &format!("sha256:{colons}"),
        ] {
            assert_eq!(written.parse(), Ok(print), "{written}");
        }
        for wrong in [
            "",
            "sha256:",
            &hex[1..],
            &hex[2..],
            "sha1:00",
            &format!("{hex}00"),
        ] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
