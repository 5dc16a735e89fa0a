//! Base64 of the usual alphabet: read with or without padding, written without.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for piece in bytes.chunks(3) {
        let mut bits = [0_u8; 3];
        bits[..piece.len()].copy_from_slice(piece);
        let bits = u32::from_be_bytes([0, bits[0], bits[1], bits[2]]);
        // One byte makes two digits, two make three.
        for digit in 0..=piece.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(char::from(ALPHABET[index as usize]));
        }
    }
    text
}

/// `None` for anything that is not Base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let padding = text.len() - digits.len();
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) || digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for piece in digits.chunks(4) {
        let mut bits = 0_u32;
        for place in 0..4 {
            bits = bits << 6 | piece.get(place).map_or(Some(0), |digit| value(*digit))?;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..piece.len()]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
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
