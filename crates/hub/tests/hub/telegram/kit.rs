//! A stand-in for the Bot API, on a real socket, that does as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use switchboard_hub::config::{BotToken, Config};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::broker::kit::listens;
use crate::world::eventually;

pub const TOKEN: &str = "12:sEcret";
pub const CHAT: i64 = -77;

#[derive(Clone)]
pub struct Telegram {
    state: Arc<Mutex<State_>>,
    bell: Arc<Notify>,
    pub url: String,
}

#[derive(Default)]
struct State_ {
    updates: Vec<Value>,
    /// Offsets that were asked for.
    polled: Vec<Option<i64>>,
    polling: usize,
    most_polling: usize,
    sent: Vec<Value>,
    /// How often it was asked to send.
    asked: usize,
    /// Answers to come, before the usual ones.
    polls: VecDeque<Reply>,
    sends: VecDeque<Reply>,
}

/// An answer: its status and its body; or none at all.
pub type Reply = Option<(u16, String)>;

pub fn refusal(code: u16, what: &str, retry_after: Option<u64>) -> Reply {
    let mut body = json!({ "ok": false, "error_code": code, "description": what });
    if let Some(after) = retry_after {
        body["parameters"] = json!({ "retry_after": after });
    }
    Some((code, body.to_string()))
}

impl Telegram {
    pub async fn start() -> Telegram {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let telegram = Telegram {
            state: Arc::default(),
            bell: Arc::default(),
            url: format!("http://{}", listener.local_addr().unwrap()),
        };
        let routes = Router::new()
            .route("/{bot}/{method}", post(serve))
            .with_state(telegram.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        telegram
    }

    /// A hub's settings with this bot, and a broker on a free port.
    pub fn configure(&self, config: &mut Config) {
        listens(config);
        config.telegram.base_url = self.url.clone();
        config.telegram.token = Some(BotToken(TOKEN.to_owned()));
        config.telegram.chat = Some(CHAT.to_string());
    }

    /// Somebody writes to the bot.
    pub fn writes(&self, update: i64, chat: i64, message: Value) {
        let mut message = message;
        message["chat"] = json!({ "id": chat, "type": "private" });
        let update = json!({ "update_id": update, "message": message });
        self.state.lock().unwrap().updates.push(update);
        self.bell.notify_waiters();
    }

    pub fn says(&self, update: i64, text: &str) {
        self.writes(update, CHAT, json!({ "text": text }));
    }

    pub fn answers_polls(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state.lock().unwrap().polls.extend(replies);
    }

    pub fn answers_sends(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state.lock().unwrap().sends.extend(replies);
    }

    /// The texts that were sent to the chat.
    pub fn sent(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let text = |sent: &Value| {
            assert_eq!(sent["chat_id"], CHAT, "{sent}");
            sent["text"].as_str().unwrap().to_owned()
        };
        state.sent.iter().map(text).collect()
    }

    pub fn asked_to_send(&self) -> usize {
        self.state.lock().unwrap().asked
    }

    pub fn most_polling(&self) -> usize {
        self.state.lock().unwrap().most_polling
    }

    pub fn polls(&self) -> usize {
        self.state.lock().unwrap().polled.len()
    }

    /// The offset of one poll.
    pub fn polled(&self, at: usize) -> Option<i64> {
        self.state.lock().unwrap().polled[at]
    }

    /// Until the last poll asks for what comes from this number on.
    pub async fn is_read_before(&self, offset: i64) {
        let last = || self.state.lock().unwrap().polled.last().copied().flatten();
        eventually(async || last() == Some(offset)).await;
    }

    fn reply(&self, method: &str) -> Option<Reply> {
        let mut state = self.state.lock().unwrap();
        match method {
            "getUpdates" => state.polls.pop_front(),
            _ => {
                state.asked += 1;
                state.sends.pop_front()
            }
        }
    }

    async fn get_updates(&self, asked: &Value) -> Value {
        let offset = asked["offset"].as_i64();
        {
            let mut state = self.state.lock().unwrap();
            state.polled.push(offset);
            let is_open = |update: &Value| update["update_id"].as_i64() >= offset;
            state.updates.retain(is_open);
            state.polling += 1;
            state.most_polling = state.most_polling.max(state.polling);
        }
        // Also if whoever asks goes away.
        let _guard = Polling(self.clone());
        let until = Instant::now() + Duration::from_secs(asked["timeout"].as_u64().unwrap());
        loop {
            let rung = self.bell.notified();
            let updates = self.state.lock().unwrap().updates.clone();
            if !updates.is_empty() || timeout_at(until, rung).await.is_err() {
                return json!(updates);
            }
        }
    }
}

struct Polling(Telegram);

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().polling -= 1;
    }
}

async fn serve(
    State(telegram): State<Telegram>,
    Path((bot, method)): Path<(String, String)>,
    body: Bytes,
) -> (StatusCode, String) {
    assert_eq!(bot, format!("bot{TOKEN}"));
    let asked: Value = serde_json::from_slice(&body).unwrap();
    match telegram.reply(&method) {
        Some(Some((status, body))) => return (StatusCode::from_u16(status).unwrap(), body),
        Some(None) => std::future::pending().await,
        None => {}
    }
    let result = match method.as_str() {
        "getUpdates" => telegram.get_updates(&asked).await,
        "sendMessage" => {
            telegram.state.lock().unwrap().sent.push(asked);
            json!({ "message_id": 1 })
        }
        other => panic!("{other} is not asked for"),
    };
    let body = json!({ "ok": true, "result": result });
    (StatusCode::OK, body.to_string())
}
