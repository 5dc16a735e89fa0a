//! One setting's value, from a file's typed value or from plain text.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{AuthMode, LogFormat, Network, StoreMode};

/// A value before it is understood.
#[derive(Clone, Debug)]
pub enum Given {
    Toml(toml::Value),
    /// From the environment or the command line.
    Text(String),
}

/// A type that a setting may have.
pub trait Setting: Sized {
    /// What a person reads when the value is something else.
    const WANTED: &'static str;

    fn from_toml(value: &toml::Value) -> Option<Self>;
    fn from_text(text: &str) -> Option<Self>;
}

pub fn read<T: Setting>(given: &Given) -> Result<T, String> {
    let (read, shown) = match given {
        Given::Toml(value) => (T::from_toml(value), value.to_string()),
        Given::Text(text) => (T::from_text(text.trim()), format!("{text:?}")),
    };
    read.ok_or_else(|| {
        let shown: String = shown.chars().take(SHOWN_MAX).collect();
        format!("expected {}, found {shown}", T::WANTED)
    })
}

/// A wrong value is shown up to this many characters.
const SHOWN_MAX: usize = 80;

impl Setting for bool {
    const WANTED: &'static str = "true or false";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_bool()
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        }
    }
}

impl Setting for u32 {
    const WANTED: &'static str = "a whole number from 0 to 4294967295";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_integer()?.try_into().ok()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// A number of calls or of places: at least one.
pub struct AtLeastOne(pub u32);

impl Setting for AtLeastOne {
    const WANTED: &'static str = "a whole number from 1 to 1000000";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        u32::from_toml(value)
            .filter(|count| (1..=1_000_000).contains(count))
            .map(AtLeastOne)
    }

    fn from_text(text: &str) -> Option<Self> {
        u32::from_text(text)
            .filter(|count| (1..=1_000_000).contains(count))
            .map(AtLeastOne)
    }
}

/// A limit that need not be set.
pub struct Unless<T>(pub Option<T>);

impl<T: Setting> Setting for Unless<T> {
    const WANTED: &'static str = T::WANTED;

    fn from_toml(value: &toml::Value) -> Option<Self> {
        T::from_toml(value).map(|value| Unless(Some(value)))
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "" | "none" => Some(Unless(None)),
            text => T::from_text(text).map(|value| Unless(Some(value))),
        }
    }
}

/// A share of a hundred.
pub struct Percent(pub f64);

impl Setting for Percent {
    const WANTED: &'static str = "a number from 0 to 100";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        let number = value
            .as_float()
            .or_else(|| value.as_integer().map(|whole| whole as f64))?;
        (0.0..=100.0).contains(&number).then_some(Percent(number))
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse()
            .ok()
            .filter(|number| (0.0..=100.0).contains(number))
            .map(Percent)
    }
}

impl Setting for String {
    const WANTED: &'static str = "text";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Setting for PathBuf {
    const WANTED: &'static str = "a path";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| PathBuf::from(text))
    }
}

impl Setting for SocketAddr {
    const WANTED: &'static str = "an address with a port, such as 127.0.0.1:7373";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix("localhost:") {
            Some(port) => port
                .parse()
                .ok()
                .map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port))),
            None => text.parse().ok(),
        }
    }
}

impl Setting for Vec<String> {
    const WANTED: &'static str = "a list of texts";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_array()?.iter().map(String::from_toml).collect()
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }
}

impl Setting for Vec<Network> {
    const WANTED: &'static str = "a list of addresses or networks, such as 10.0.0.0/8";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        Vec::<String>::from_toml(value)?
            .iter()
            .map(|text| text.parse().ok())
            .collect()
    }

    fn from_text(text: &str) -> Option<Self> {
        Vec::<String>::from_text(text)?
            .iter()
            .map(|text| text.parse().ok())
            .collect()
    }
}

impl Setting for StoreMode {
    const WANTED: &'static str = "\"0600\", or \"0640\" or \"0660\" to give the group access";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "0600" => Some(StoreMode::Private),
            "0640" => Some(StoreMode::GroupReads),
            "0660" => Some(StoreMode::GroupWrites),
            _ => None,
        }
    }
}

impl Setting for AuthMode {
    const WANTED: &'static str = "\"none\" or \"hmac\"";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "none" => Some(AuthMode::None),
            "hmac" => Some(AuthMode::Hmac),
            _ => None,
        }
    }
}

impl Setting for LogFormat {
    const WANTED: &'static str = "\"text\" or \"json\"";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => None,
        }
    }
}
