//! Whether two globs have a file in common: both patterns are walked at once.

/// Alternatives that braces may expand to.
const EXPANSIONS_MAX: usize = 32;

pub(super) fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '{'])
}

/// Whether this segment of a glob is more than a name.
pub(super) fn has_wildcard(segment: &str) -> bool {
    segment.contains(['*', '?', '{', '['])
}

pub(super) fn check(path: &str) -> Result<(), String> {
    for whole in expand(path)? {
        for segment in whole.split('/') {
            if segment != "**" && segment.contains("**") {
                return Err(format!("in {segment}, ** must stand alone between slashes"));
            }
            tokens(segment)?;
        }
    }
    Ok(())
}

/// Whether some path is covered by both. Names cover what lies below them, wildcards only what they match.
///
/// A name with an extension is taken for a file unless the other side itself treats it as a directory: so
/// `src/**/*.rs` leaves `src/a.ts` alone, but `src/a.ts/*.rs` does not.
pub(super) fn overlap(left: &str, right: &str) -> bool {
    let (left, right) = (alternatives(left), alternatives(right));
    left.iter()
        .any(|one| right.iter().any(|other| have_in_common(one, other)))
}

fn have_in_common(left: &[Segment], right: &[Segment]) -> bool {
    walk(left, right) || is_entered(left, right) || is_entered(right, left)
}

/// Whether `other` leads into what `path` names as if it were a directory.
fn is_entered(path: &[Segment], other: &[Segment]) -> bool {
    matches!(path.last(), Some(Segment::Name(_)))
        && (1..other.len()).any(|end| other[end - 1] != Segment::Deep && walk(path, &other[..end]))
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Name(String),
    Pattern(Vec<Token>),
    /// Any number of segments, also none.
    Deep,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Exactly(char),
    One,
    Many,
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

fn alternatives(path: &str) -> Vec<Vec<Segment>> {
    if !is_glob(path) {
        let names = path
            .split('/')
            .filter(|name| *name != ".")
            .map(|name| Segment::Name(name.to_owned()));
        return vec![with_what_is_below(names.collect())];
    }
    let whole = expand(path).unwrap_or_else(|_| vec![path.to_owned()]);
    whole.iter().map(|text| segments(text)).collect()
}

fn segments(text: &str) -> Vec<Segment> {
    let list = text
        .split('/')
        .map(|part| match part {
            "**" => Segment::Deep,
            part if has_wildcard(part) => match tokens(part) {
                Ok(tokens) => Segment::Pattern(tokens),
                Err(_) => Segment::Name(part.to_owned()),
            },
            part => Segment::Name(part.to_owned()),
        })
        .collect();
    with_what_is_below(list)
}

/// A path that ends in a name covers what lies below it, unless the name is that of a file.
fn with_what_is_below(mut list: Vec<Segment>) -> Vec<Segment> {
    match list.last() {
        Some(Segment::Name(name)) if !is_file_name(name) => list.push(Segment::Deep),
        None => list.push(Segment::Deep),
        Some(Segment::Name(_) | Segment::Pattern(_) | Segment::Deep) => {}
    }
    list
}

fn is_file_name(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && extension.starts_with(|c: char| c.is_ascii_alphabetic())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

/// Both lists at once; `reach[j]` tells whether the rest of `left` and `right[j..]` can meet.
fn walk(left: &[Segment], right: &[Segment]) -> bool {
    meet(
        left,
        right,
        |segment| *segment == Segment::Deep,
        |one, other| match (one, other) {
            (Segment::Name(one), Segment::Name(other)) => one == other,
            (Segment::Name(name), Segment::Pattern(pattern))
            | (Segment::Pattern(pattern), Segment::Name(name)) => {
                let name: Vec<Token> = name.chars().map(Token::Exactly).collect();
                segments_meet(&name, pattern)
            }
            (Segment::Pattern(one), Segment::Pattern(other)) => segments_meet(one, other),
            (Segment::Deep, _) | (_, Segment::Deep) => true,
        },
    )
}

fn segments_meet(left: &[Token], right: &[Token]) -> bool {
    meet(left, right, |token| *token == Token::Many, tokens_meet)
}

/// Whether two sequences with "any number" items can stand for the same thing.
fn meet<T>(
    left: &[T],
    right: &[T],
    is_many: impl Fn(&T) -> bool,
    can_equal: impl Fn(&T, &T) -> bool,
) -> bool {
    let mut below: Vec<bool> = Vec::new();
    for i in (0..=left.len()).rev() {
        let mut row = vec![false; right.len() + 1];
        for j in (0..=right.len()).rev() {
            let down = || i < left.len() && below[j];
            row[j] = match (left.get(i), right.get(j)) {
                (None, None) => true,
                (Some(one), _) if is_many(one) => down() || (j < right.len() && row[j + 1]),
                (_, Some(other)) if is_many(other) => row[j + 1] || down(),
                (Some(one), Some(other)) => can_equal(one, other) && below[j + 1],
                (None, Some(_)) | (Some(_), None) => false,
            };
        }
        below = row;
    }
    below[0]
}

fn tokens_meet(left: &Token, right: &Token) -> bool {
    match (left, right) {
        (Token::Exactly(one), Token::Exactly(other)) => one == other,
        (Token::Exactly(c), Token::Class { ranges, negated })
        | (Token::Class { ranges, negated }, Token::Exactly(c)) => {
            ranges.iter().any(|(low, high)| low <= c && c <= high) != *negated
        }
        // Two classes are taken to meet: refusing too much is safe, granting too much is not.
        (Token::Class { .. }, Token::Class { .. }) => true,
        (Token::One | Token::Many, _) | (_, Token::One | Token::Many) => true,
    }
}

fn tokens(segment: &str) -> Result<Vec<Token>, String> {
    let mut list = Vec::new();
    let mut rest = segment.chars();
    while let Some(c) = rest.next() {
        list.push(match c {
            '*' => Token::Many,
            '?' => Token::One,
            '[' => class(&mut rest)
                .ok_or_else(|| format!("in {segment}, the class after [ is not closed or empty"))?,
            c => Token::Exactly(c),
        });
    }
    Ok(list)
}

fn class(rest: &mut std::str::Chars<'_>) -> Option<Token> {
    let mut body = Vec::new();
    loop {
        match rest.next()? {
            ']' if !body.is_empty() && body != ['!'] && body != ['^'] => break,
            c => body.push(c),
        }
    }
    let negated = matches!(body.first(), Some('!' | '^'));
    let members = &body[usize::from(negated)..];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            if members[at] > members[at + 2] {
                return None;
            }
            ranges.push((members[at], members[at + 2]));
            at += 3;
        } else {
            ranges.push((members[at], members[at]));
            at += 1;
        }
    }
    Some(Token::Class { ranges, negated })
}

/// `a.{ts,tsx}` as `a.ts` and `a.tsx`; braces may nest.
fn expand(text: &str) -> Result<Vec<String>, String> {
    let mut open = vec![text.to_owned()];
    let mut done = Vec::new();
    while let Some(next) = open.pop() {
        let Some(start) = next.find('{') else {
            if next.contains('}') {
                return Err(format!("in {text}, a }} has no matching {{"));
            }
            done.push(next);
            continue;
        };
        let (end, commas) =
            brace(&next[start..]).ok_or_else(|| format!("in {text}, a {{ has no matching }}"))?;
        let mut from = start + 1;
        for cut in commas.into_iter().chain([end]) {
            open.push(format!(
                "{}{}{}",
                &next[..start],
                &next[from..start + cut],
                &next[start + end + 1..]
            ));
            from = start + cut + 1;
        }
        if open.len() + done.len() > EXPANSIONS_MAX {
            return Err(format!(
                "{text} expands to more than {EXPANSIONS_MAX} alternatives"
            ));
        }
    }
    Ok(done)
}

/// Where the brace that opens `text` closes, and its own commas.
fn brace(text: &str) -> Option<(usize, Vec<usize>)> {
    let mut depth = 0;
    let mut commas = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some((at, commas));
                }
            }
            ',' if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    None
}
