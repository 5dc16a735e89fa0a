//! Closed sets of words: an enum, its spelling, and an error that lists what is allowed.

use std::fmt;

/// A word outside the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    pub word: String,
    pub allowed: &'static [&'static str],
}

/// A stranger's word is shown up to this many characters.
const SHOWN_MAX: usize = 64;

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.word.chars().take(SHOWN_MAX).collect();
        write!(
            f,
            "unknown value {shown:?}; allowed: {}",
            self.allowed.join(", ")
        )
    }
}

impl std::error::Error for UnknownWord {}

/// Declares an enum whose variants are words on the wire.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Every word, in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownWord { word: word.to_owned(), allowed: Self::WORDS }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Word;

                impl serde::de::Visitor<'_> for Word {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "one of the words {}", $name::WORDS.join(", "))
                    }

                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$name, E> {
                        word.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Word)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::WORDS })
            }
        }

        impl $crate::query::Scalar for $name {
            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|unknown: $crate::UnknownWord| unknown.to_string())
            }

            fn write(&self) -> String {
                self.as_str().to_owned()
            }

            fn schema() -> serde_json::Value {
                serde_json::json!({ "type": "string", "enum": Self::WORDS })
            }
        }
    };
}

/// Two enums of the same words: `protocol's variant = rules' variant`.
macro_rules! mirror {
    ($wire:ty, $core:ty { $($one:ident = $other:ident),+ $(,)? }) => {
        impl From<$wire> for $core {
            fn from(word: $wire) -> Self {
                match word { $(<$wire>::$one => <$core>::$other),+ }
            }
        }

        impl From<$core> for $wire {
            fn from(word: $core) -> Self {
                match word { $(<$core>::$other => <$wire>::$one),+ }
            }
        }
    };
}

pub(crate) use {mirror, words};
