//! The protocol's words as values of options: listed in `--help`, completed by shells, refused when unknown.

use std::fmt::Debug;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Reads one of `words`, which must be the words of `T`.
pub fn one_of<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
    T::Err: Debug,
{
    PossibleValuesParser::new(words).map(|word| {
        word.parse()
            .expect("the parser lets only these words through")
    })
}
