//! Base64 of the usual alphabet: read with or without padding, written without.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// `None` for anything that is not Base64, or padded by half.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let is_cut = text.ends_with('=') && !text.len().is_multiple_of(4);
    ENGINE.decode(text).ok().filter(|_| !is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_are_read_with_and_without_padding() {
        for (bytes, padded) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (b"foobar", "Zm9vYmFy"),
            (&[0, 255, 254], "AP/+"),
        ] {
            let bare = padded.trim_end_matches('=');
            assert_eq!(encode(bytes), bare);
            assert_eq!(decode(padded).as_deref(), Some(bytes), "{padded}");
            assert_eq!(decode(bare).as_deref(), Some(bytes), "{bare}");
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in [
            "Z", "Zg=", "Zg===", "Z===", "Zm9v=", "Zm 9", "Zm9-", "=", "Zg==Zg==", "ä",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
