//! Text as one clean line: nothing secret, no control characters, of bounded length.

use switchboard_wire::redact;

/// One fact, in bytes.
pub const FACT_BYTES_MAX: usize = 500;
/// A title inside of a fact, or that of a decision.
pub const FACT_TITLE_BYTES_MAX: usize = 160;
/// Why a decision was made.
pub const RATIONALE_BYTES_MAX: usize = 600;

/// Takes out what is secret before anything is cut, so that no half of a token is left.
pub fn line(text: &str, bytes_max: usize) -> String {
    cut(&flat(&redact::text(text)), bytes_max)
}

/// Words with single spaces between them.
fn flat(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let is_gap = |letter: char| letter.is_whitespace() || letter.is_control();
    for word in text.split(is_gap).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// At most so many bytes, with a mark where something is missing.
pub fn cut(text: &str, bytes_max: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_its_bound_and_never_inside_a_letter() {
        for (length, expected) in [(9, 9), (10, 10), (11, 10)] {
            assert_eq!(line(&"x".repeat(length), 10).len(), expected);
        }
        for most in 3..20 {
            let short = line("ääääääääääääää", most);
            assert!(short.len() <= most, "{short}");
            assert!(short.ends_with('…'));
        }
    }

    #[test]
    fn gaps_and_control_characters_become_single_spaces() {
        assert_eq!(line(" a\n\tb\u{0}\u{1b}[31m  c ", 100), "a b [31m c");
    }

    #[test]
    fn no_half_of_a_secret_is_left_where_a_line_is_cut() {
        // agentbus.security.no_secrets
        let token = format!("ghp_{}", "a1B2".repeat(9));
        for most in 10..80 {
            let line = line(&format!("cloned with {token} at once"), most);
            assert!(!line.contains("ghp_"), "{line}");
        }
    }
}
