//! What a person carries from one node to the other: a secret, and what the inviter's certificate is known by.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

use crate::Fingerprint;
use crate::signature::to_hex;

/// `sbi_`, 64 hexadecimal digits, and with TLS a dot and the hash of the certificate's public key.
#[derive(Clone, PartialEq, Eq)]
pub struct Invite {
    secret: String,
    pub certificate: Option<Fingerprint>,
}

const PREFIX: &str = "sbi_";
const DIGITS: usize = 64;

impl Invite {
    /// Of a secret in hexadecimal.
    pub fn new(secret: String, certificate: Option<Fingerprint>) -> Invite {
        Invite {
            secret,
            certificate,
        }
    }

    /// What is kept of it: the hash of the secret, in hexadecimal.
    pub fn hash(&self) -> String {
        to_hex(digest::digest(&digest::SHA256, self.secret.as_bytes()).as_ref())
    }
}

impl fmt::Display for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.secret)?;
        match &self.certificate {
            Some(certificate) => write!(f, ".{}", certificate.digits()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invite(…)")
    }
}

impl FromStr for Invite {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Invite, Self::Err> {
        let wrong = "expected an invite, as 'switchboard node invite' prints it: sbi_ and 64 hexadecimal digits, maybe with a dot and 64 more";
        let is_hex = |part: &str| {
            part.len() == DIGITS
                && part
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let rest = text.trim().strip_prefix(PREFIX).ok_or(wrong)?;
        let (secret, certificate) = match rest.split_once('.') {
            Some((secret, certificate)) => (secret, Some(certificate)),
            None => (rest, None),
        };
        if !is_hex(secret) || !certificate.is_none_or(is_hex) {
            return Err(wrong);
        }
        let certificate = certificate.map(str::parse).transpose();
        Ok(Invite {
            secret: secret.to_owned(),
            certificate: certificate.map_err(|_| wrong)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invite_is_read_as_it_was_printed_and_nothing_else_is_one() {
        let pin = Fingerprint::of(b"key");
        for certificate in [None, Some(pin)] {
            let invite = Invite::new("ab".repeat(32), certificate);
            let text = invite.to_string();
            assert_eq!(text.parse(), Ok(invite.clone()));
            assert_eq!(format!(" {text}\n").parse(), Ok(invite));
        }
        let plain = Invite::new("ab".repeat(32), None);
        let pinned = Invite::new("ab".repeat(32), Some(pin));
        assert_eq!(plain.hash(), pinned.hash(), "the secret counts");
        assert!(!format!("{plain:?}").contains("abab"));
        let good = plain.to_string();
        for bad in [
            "",
            "sbi_",
            &good[1..],
            &good[..good.len() - 1],
            &good.to_uppercase(),
            &format!("{good}."),
            &format!("{good}.{}", "g".repeat(64)),
            &format!("{good}ab"),
        ] {
            assert!(bad.parse::<Invite>().is_err(), "{bad}");
        }
    }
}
