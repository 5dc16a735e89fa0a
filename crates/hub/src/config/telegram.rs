//! Settings of Telegram: which bot, and whose chat.

use std::fmt;

use super::read::{Setting, read};
use super::settings::Entry;

pub const TELEGRAM_TOKEN: &str = "TELEGRAM_BOT_TOKEN";
pub const TELEGRAM_CHAT: &str = "TELEGRAM_CHAT_ID";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telegram {
    pub enabled: bool,
    /// Of the Bot API, without a slash at the end.
    pub base_url: String,
    pub token: Option<BotToken>,
    pub chat: Option<String>,
}

impl Default for Telegram {
    fn default() -> Self {
        Telegram {
            enabled: true,
            base_url: "https://api.telegram.org".to_owned(),
            token: None,
            chat: None,
        }
    }
}

/// A secret: it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BotToken(pub String);

impl fmt::Debug for BotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BotToken(…)")
    }
}

impl Telegram {
    /// The bot's token and the person's chat; none if it is off. The reason, if something is missing or wrong.
    pub fn account(&self) -> Result<Option<(&BotToken, i64)>, String> {
        let off = |why: &str| Err(format!("{why}; Telegram is off"));
        match (&self.token, &self.chat) {
            _ if !self.enabled => Ok(None),
            (None, None) => Ok(None),
            (Some(_), None) => off(&format!(
                "{TELEGRAM_TOKEN} is set, but {TELEGRAM_CHAT} is not"
            )),
            (None, Some(_)) => off(&format!(
                "{TELEGRAM_CHAT} is set, but {TELEGRAM_TOKEN} is not"
            )),
            (Some(token), Some(chat)) => match chat.trim().parse() {
                _ if !token.is_one() => off(&format!("{TELEGRAM_TOKEN} is not a bot's token")),
                Ok(chat) => Ok(Some((token, chat))),
                Err(_) => off(&format!(
                    "{TELEGRAM_CHAT} must be a number, such as 123456789"
                )),
            },
        }
    }
}

impl BotToken {
    fn is_one(&self) -> bool {
        let fits = |letter: u8| letter.is_ascii_alphanumeric() || b":_-".contains(&letter);
        self.0.contains(':') && self.0.bytes().all(fits)
    }
}

#[rustfmt::skip]
pub const TELEGRAM_SETTINGS: &[Entry] = &[
    ("squidrun.telegram.enabled", |d, g| read(g).map(|v| d.config.telegram.enabled = v)),
    ("squidrun.telegram.base_url", |d, g| read::<BaseUrl>(g).map(|v| d.config.telegram.base_url = v.0)),
];

struct BaseUrl(String);

impl Setting for BaseUrl {
    const WANTED: &'static str = "an address without a path, such as https://api.telegram.org";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        let url = reqwest::Url::parse(text).ok()?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.username().is_empty();
        let fits = matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain;
        fits.then(|| BaseUrl(text.trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigError, Loaded, Overrides};
    use super::*;

    fn load(toml: &str, env: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let project = tempfile::tempdir().unwrap();
        std::fs::write(project.path().join("switchboard.toml"), toml).unwrap();
        let overrides = Overrides {
            project: Some(project.path().to_owned()),
            ..Overrides::default()
        };
        let env = env
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        Config::load(None, env, &overrides)
    }

    #[test]
    fn a_bot_takes_a_token_and_a_chat_and_the_token_is_never_shown() {
        let (token, chat) = ((TELEGRAM_TOKEN, "12:sEcret"), (TELEGRAM_CHAT, "-7"));
        let loaded = load("", &[token, chat]).unwrap();
        assert_eq!(loaded.warnings, [""; 0]);
        let telegram = &loaded.config.telegram;
        let (known, of) = telegram.account().unwrap().unwrap();
        assert_eq!((known.0.as_str(), of), ("12:sEcret", -7));
        assert!(!format!("{:?}", loaded.config).contains("sEcret"));
        let off = load("[squidrun.telegram]\nenabled = false", &[token, chat]).unwrap();
        assert_eq!(off.config.telegram.account(), Ok(None));
        assert_eq!(load("", &[]).unwrap().config.telegram.account(), Ok(None));
        let empty = [(TELEGRAM_TOKEN, ""), (TELEGRAM_CHAT, " ")];
        assert_eq!(
            load("", &empty).unwrap().config.telegram.account(),
            Ok(None)
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_and_the_hub_starts_without() {
        for (env, part) in [
            (&[(TELEGRAM_TOKEN, "12:x")][..], "TELEGRAM_CHAT_ID is not"),
            (&[(TELEGRAM_CHAT, "7")], "TELEGRAM_BOT_TOKEN is not"),
            (
                &[(TELEGRAM_TOKEN, "12:x"), (TELEGRAM_CHAT, "@me")],
                "a number",
            ),
            (
                &[(TELEGRAM_TOKEN, "12:x/.."), (TELEGRAM_CHAT, "7")],
                "bot's token",
            ),
        ] {
            let loaded = load("", env).unwrap();
            let told = loaded.warnings.join(" ");
            assert!(told.contains(part) && told.contains("is off"), "{told}");
            assert!(!told.contains("12:x"), "{told}");
        }
    }

    #[test]
    fn a_base_url_is_an_address_alone() {
        let base = |url: &str| load(&format!("[squidrun.telegram]\nbase_url = \"{url}\""), &[]);
        for fine in ["http://127.0.0.1:8081", "http://127.0.0.1:8081/"] {
            let url = base(fine).unwrap().config.telegram.base_url;
            assert_eq!(url, "http://127.0.0.1:8081");
        }
        for odd in [
            "",
            "api.telegram.org",
            "ftp://x",
            "https://x/y",
            "https://x/?a=b",
            "https://a@x",
        ] {
            assert!(base(odd).is_err(), "{odd}");
        }
    }
}
