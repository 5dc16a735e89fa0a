//! One bot and one chat, over HTTPS. The token is in the address of every request, so no address is ever shown.

use std::error::Error as _;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use serde_json::Value;
use switchboard_wire::squidrun::telegram::{self, Trouble, Update};
use tokio::time::{Instant, sleep, timeout};

use crate::config;

/// The Bot API waits so long for news.
const POLL_FOR: Duration = Duration::from_secs(50);
/// And may take so long to answer after that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// No answer is longer.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// What is told of a trouble.
const WHY_CHARS_MAX: usize = 200;

pub struct Bot {
    http: reqwest::Client,
    base_url: String,
    token: config::BotToken,
    pub chat: i64,
}

impl Bot {
    pub fn new(base_url: &str, token: &config::BotToken, chat: i64) -> Result<Bot, String> {
        // Whoever set a provider first wins; ours is the one that the workspace builds with.
        let _ = aws_lc_rs::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECTS_WITHIN)
            .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        if base_url.starts_with("http:") {
            http = http.no_proxy().tls_certs_only([]);
        }
        Ok(Bot {
            http: http.build().map_err(|error| error.to_string())?,
            base_url: base_url.to_owned(),
            token: token.clone(),
            chat,
        })
    }

    /// What came after `offset`; waits for it.
    pub async fn updates(&self, offset: Option<i64>) -> Result<Vec<Update>, Trouble> {
        let asked = telegram::get_updates(offset, POLL_FOR);
        let within = POLL_FOR + ANSWERS_WITHIN;
        let result = self.call("getUpdates", &asked, within).await?;
        Ok(telegram::updates(&result))
    }

    /// Sends it once. Asked to wait, it tries again, as long as that is within the time: nothing was sent then.
    pub async fn send(&self, text: &str, within: Duration) -> Result<(), Trouble> {
        let asked = telegram::send_message(self.chat, text);
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.call("sendMessage", &asked, left).await {
                Ok(_) => return Ok(()),
                Err(trouble) => match trouble.retry_after {
                    Some(after) if Instant::now() + after < until => sleep(after).await,
                    Some(_) | None => return Err(trouble),
                },
            }
        }
    }

    async fn call(&self, method: &str, body: &Value, within: Duration) -> Result<Value, Trouble> {
        let url = format!("{}/bot{}/{method}", self.base_url, self.token.0);
        let asked = async {
            let mut response = self.http.post(url).json(body).send().await?;
            let mut answer = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                answer.extend_from_slice(&chunk);
                if answer.len() > ANSWER_BYTES_MAX {
                    break;
                }
            }
            Ok((response.status(), answer))
        };
        let trouble = match timeout(within, asked).await {
            Ok(Ok((status, answer))) => match telegram::answer(&answer) {
                Some(Ok(result)) => return Ok(result),
                Some(Err(trouble)) => trouble,
                None => Trouble::of(format!("HTTP {status}, and nothing that can be read")),
            },
            Ok(Err(error)) => Trouble::of(told(error)),
            Err(_) => Trouble::of("it did not answer in time"),
        };
        Err(Trouble {
            why: self.without_token(&trouble.why),
            ..trouble
        })
    }

    fn without_token(&self, why: &str) -> String {
        let why = why.replace(&self.token.0, "…");
        let plain = why.chars().filter(|letter| !letter.is_control());
        plain.take(WHY_CHARS_MAX).collect()
    }
}

/// What went wrong, and why, without the address.
fn told(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_told_of_a_trouble_has_no_token() {
        let token = config::BotToken("12:sEcret".to_owned());
        let bot = Bot::new("http://127.0.0.1:1", &token, 7).unwrap();
        let trouble = bot.send("x", Duration::from_secs(20)).await.unwrap_err();
        assert!(!trouble.why.is_empty());
        assert!(!trouble.why.contains("sEcret"), "{}", trouble.why);
        let echoed = bot.without_token("Not Found: /bot12:sEcret/sendMessage\r\n");
        assert_eq!(echoed, "Not Found: /bot…/sendMessage");
        assert_eq!(
            bot.without_token(&"é".repeat(999)).chars().count(),
            WHY_CHARS_MAX
        );
    }
}
