//! Long texts as the ledger keeps them: compressed, and encrypted where the job is sensitive.
//!
//! A sealed text names its job and run, so that it cannot stand for another's. The key is in memory alone.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use switchboard_core::JobId;
use switchboard_core::job_history::Packed;
use switchboard_wire::signature::{KEY_LEN, from_hex};

use crate::config::{LOGIST_KEY, PromptKey};
use crate::data_dir::Keys;

/// Before a text that is short.
const PLAIN: &str = "p:";
const COMPRESSED: &str = "z:";
/// So it also stands in files.
const SEALED: &str = "aes-256-gcm-siv:";
/// Below it nothing is gained.
const COMPRESSED_FROM_BYTES: usize = 256;
const LEVEL: i32 = 3;
/// What a text comes to at most; a text of the ledger is no longer than its bound and what stands for bad bytes.
const TEXT_BYTES_MAX: usize = 4 * switchboard_core::limits::JOB_TEXT_BYTES_MAX;

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(
        "the job is sensitive, and there is no key for its prompts; set [logist] key_file or {LOGIST_KEY} (32 bytes in hexadecimal), and restart the hub"
    )]
    NoKey,
    #[error("the key for prompts is not 32 bytes in hexadecimal: {0}")]
    BadKey(String),
    #[error("a stored text of job {0} cannot be read with this key, or is damaged")]
    Unreadable(JobId),
}

/// Packs and unpacks.
#[derive(Default)]
pub struct Packer(Option<RandomizedNonceKey>);

impl Packer {
    pub fn new(from: &PromptKey) -> Result<Packer, SealError> {
        let bytes = match (&from.text, &from.file) {
            (Some(text), _) => {
                let key = from_hex(text.trim()).filter(|key| key.len() == KEY_LEN);
                Some(key.ok_or_else(|| SealError::BadKey(LOGIST_KEY.to_owned()))?)
            }
            (None, Some(file)) => {
                let bad = |why: String| SealError::BadKey(why);
                let key = Keys::read_at(file.clone()).map_err(|error| bad(error.to_string()))?;
                Some(
                    key.ok_or_else(|| bad(format!("there is no file {}", file.display())))?
                        .to_vec(),
                )
            }
            (None, None) => None,
        };
        let key = bytes.map(|bytes| RandomizedNonceKey::new(&AES_256_GCM_SIV, &bytes));
        let key = key
            .transpose()
            .map_err(|_| SealError::BadKey(LOGIST_KEY.to_owned()))?;
        Ok(Packer(key))
    }

    pub fn pack(text: &str) -> Packed {
        if text.len() < COMPRESSED_FROM_BYTES {
            return Packed(format!("{PLAIN}{text}"));
        }
        Packed(format!(
            "{COMPRESSED}{}",
            STANDARD.encode(compressed(text.as_bytes()))
        ))
    }

    pub fn seal(&self, text: &str, job: &JobId, run: &str) -> Result<Packed, SealError> {
        let key = self.0.as_ref().ok_or(SealError::NoKey)?;
        let mut bytes = compressed(text.as_bytes());
        let nonce = key
            .seal_in_place_append_tag(aad(job, run), &mut bytes)
            .map_err(|_| SealError::Unreadable(job.clone()))?;
        let whole = [nonce.as_ref().as_slice(), &bytes].concat();
        Ok(Packed(format!("{SEALED}{}", STANDARD.encode(whole))))
    }

    /// The text, decrypted where there is a key.
    pub fn open(&self, packed: &Packed, job: &JobId, run: &str) -> Result<String, SealError> {
        let Some(sealed) = packed.0.strip_prefix(SEALED) else {
            return Self::shown(packed, job);
        };
        let key = self.0.as_ref().ok_or(SealError::NoKey)?;
        let unreadable = || SealError::Unreadable(job.clone());
        let whole = STANDARD.decode(sealed).map_err(|_| unreadable())?;
        let (nonce, bytes) = whole.split_at_checked(NONCE_LEN).ok_or_else(unreadable)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| unreadable())?;
        let mut bytes = bytes.to_vec();
        let clear = key.open_in_place(nonce, aad(job, run), &mut bytes);
        decompressed(clear.map_err(|_| unreadable())?).ok_or_else(unreadable)
    }

    /// The text as files have it: a sealed one stays sealed.
    pub fn shown(packed: &Packed, job: &JobId) -> Result<String, SealError> {
        let unreadable = || SealError::Unreadable(job.clone());
        if let Some(text) = packed.0.strip_prefix(PLAIN) {
            return Ok(text.to_owned());
        }
        match packed.0.strip_prefix(COMPRESSED) {
            Some(text) => {
                let bytes = STANDARD.decode(text).map_err(|_| unreadable())?;
                decompressed(&bytes).ok_or_else(unreadable)
            }
            None => Ok(packed.0.clone()),
        }
    }
}

fn aad(job: &JobId, run: &str) -> Aad<Vec<u8>> {
    Aad::from([job.as_str().as_bytes(), b"\0", run.as_bytes()].concat())
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, LEVEL).expect("memory takes what is written to it")
}

fn decompressed(bytes: &[u8]) -> Option<String> {
    String::from_utf8(zstd::bulk::decompress(bytes, TEXT_BYTES_MAX).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use switchboard_core::limits;

    use super::*;

    fn packer(key: Option<char>) -> Packer {
        Packer::new(&PromptKey {
            text: key.map(|digit| digit.to_string().repeat(2 * KEY_LEN)),
            file: None,
        })
        .unwrap()
    }

    #[test]
    fn a_text_comes_back_byte_for_byte_plain_and_sealed() {
        let (job, run, packer) = (JobId::from("j"), "run-1", packer(Some('a')));
        for text in [
            "",
            "short",
            "aes-256-gcm-siv:x",
            &"ä long one ".repeat(1000),
            &"x".repeat(limits::JOB_TEXT_BYTES_MAX),
        ] {
            let plain = Packer::pack(text);
            assert!(plain.0.len() <= text.len() + 2 || text.len() < COMPRESSED_FROM_BYTES);
            assert_eq!(Packer::shown(&plain, &job).unwrap(), text);
            assert_eq!(packer.open(&plain, &job, run).unwrap(), text);
            let sealed = packer.seal(text, &job, run).unwrap();
            assert!(!sealed.0.contains("long one") && !sealed.0.contains("short"));
            assert_eq!(Packer::shown(&sealed, &job).unwrap(), sealed.0);
            assert_eq!(packer.open(&sealed, &job, run).unwrap(), text);
        }
    }

    #[test]
    fn a_sealed_text_opens_with_its_key_for_its_own_run_alone() {
        let (job, run, key) = (JobId::from("j"), "run-1", packer(Some('a')));
        let sealed = key.seal("secret", &job, run).unwrap();
        assert_ne!(
            sealed,
            key.seal("secret", &job, run).unwrap(),
            "each has a nonce of its own"
        );
        for (packer, job, run) in [
            (packer(Some('b')), "j", "run-1"),
            (packer(Some('a')), "k", "run-1"),
            (packer(Some('a')), "j", "run-2"),
        ] {
            let error = packer.open(&sealed, &JobId::from(job), run).unwrap_err();
            assert!(matches!(error, SealError::Unreadable(_)), "{error}");
        }
        let error = packer(None).open(&sealed, &job, run).unwrap_err();
        assert!(error.to_string().contains("key_file"), "{error}");
        assert!(packer(None).seal("x", &job, run).is_err());
        for damaged in ["aes-256-gcm-siv:", "aes-256-gcm-siv:!", "z:!", "z:AAAA"] {
            let damaged = Packed(damaged.to_owned());
            assert!(key.open(&damaged, &job, run).is_err());
        }
    }

    #[test]
    fn a_key_is_32_bytes_in_hexadecimal_from_a_file_or_the_environment() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("key");
        let from = |file: &std::path::Path| PromptKey {
            file: Some(file.to_owned()),
            text: None,
        };
        assert!(Packer::new(&from(&file)).is_err(), "there is none");
        std::fs::write(&file, "ab".repeat(KEY_LEN) + "\n").unwrap();
        Packer::new(&from(&file)).unwrap();
        std::fs::write(&file, "short").unwrap();
        assert!(Packer::new(&from(&file)).is_err());
        let text = |text: &str| PromptKey {
            file: None,
            text: Some(text.to_owned()),
        };
        assert!(Packer::new(&text("abc")).is_err());
    }
}
