//! What the pages show, to be run as it stands there.

use std::path::Path;

/// The block of `page` after a comment such as `<!-- python: worker -->`.
#[track_caller]
pub fn shown(page: &str, kind: &str, what: &str) -> String {
    let text = read(page);
    let opening = format!("<!-- {kind}: {what} -->\n```{kind}\n");
    let (_, rest) = text.split_once(&opening).expect("the page shows it");
    closed(rest)
}

/// The first block of this kind under a heading of `page`.
#[track_caller]
pub fn under(page: &str, heading: &str, kind: &str) -> String {
    let text = read(page);
    let (_, section) = text
        .split_once(&format!("\n## {heading}\n"))
        .expect("the page has this heading");
    let (_, rest) = section
        .split_once(&format!("```{kind}\n"))
        .expect("the section shows it");
    closed(rest)
}

fn closed(rest: &str) -> String {
    let (block, _) = rest
        .split_once("```")
        .expect("a block that was opened is closed");
    block.to_owned()
}

fn read(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{page}: {error}"))
}
