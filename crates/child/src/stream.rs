//! What an agent program says on its output, in the form that it documents. Figures are taken as they are told, and what
//! is not told is not known.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest text that is taken out of a line.
const TEXT_CHARS_MAX: usize = 2000;
/// Of its last words, so much is kept.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// What is looked into for a reset time is no deeper.
const DEPTH_MAX: usize = 6;

/// The form of a program's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Lines for people.
    #[default]
    Text,
    /// `claude --output-format stream-json`.
    Claude,
    /// `codex exec --json`.
    Codex,
    /// `gemini --output-format stream-json`.
    Gemini,
}

/// What was told up to now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    pub session: Option<String>,
    /// What was said last to the person who asked.
    pub summary: Option<String>,
    /// The whole of it.
    pub answer: Option<String>,
    pub tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    /// Of the program's own list of things to do, so much is done.
    pub percent: Option<u8>,
    pub error: Option<String>,
    pub limit: Option<Limit>,
    /// It said that this was its last word.
    pub is_over: bool,
    format: Format,
}

/// A usage limit, and when it ends if that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub reset: Option<Reset>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// In seconds since 1970.
    At(u64),
    /// Seconds from now on.
    In(u64),
}

impl Told {
    pub fn new(format: Format) -> Told {
        Told {
            format,
            ..Told::default()
        }
    }

    /// Takes a line in; what of it a person may want to see.
    pub fn line(&mut self, line: &str) -> Option<String> {
        if self.format == Format::Text {
            return self.text(line);
        }
        // What is no event is what its launcher or a warning wrote.
        let Ok(Value::Object(event)) = serde_json::from_str(line) else {
            return Some(short(line));
        };
        let event = Value::Object(event);
        match self.format {
            Format::Text => None,
            Format::Claude => self.claude(&event),
            Format::Codex => self.codex(&event),
            Format::Gemini => self.gemini(&event),
        }
    }

    fn text(&mut self, line: &str) -> Option<String> {
        let line = short(line);
        if !line.trim().is_empty() {
            self.summary = Some(line.trim().to_owned());
        }
        Some(line)
    }

    fn claude(&mut self, event: &Value) -> Option<String> {
        self.keep_session(&event["session_id"]);
        match event["type"].as_str()? {
            "assistant" => {
                let parts = event["message"]["content"].as_array()?;
                let shown: Vec<String> = parts.iter().filter_map(|part| self.part(part)).collect();
                (!shown.is_empty()).then(|| shown.join("\n"))
            }
            "rate_limit_event" => {
                let info = &event["rate_limit_info"];
                if info["status"] == "rejected" {
                    self.limit = Some(Limit {
                        reset: reset(info, DEPTH_MAX),
                    });
                }
                None
            }
            "result" => {
                self.is_over = true;
                self.cost_usd = event["total_cost_usd"].as_f64().or(self.cost_usd);
                let names = [
                    "input_tokens",
                    "cache_creation_input_tokens",
                    "cache_read_input_tokens",
                    "output_tokens",
                ];
                self.keep_tokens(&event["usage"], &names);
                let said = event["result"].as_str();
                if event["is_error"] == true {
                    let subtype = event["subtype"].as_str().map(str::to_owned);
                    self.fail(said.map(short).or(subtype));
                } else if let Some(said) = said {
                    self.say(said.to_owned());
                }
                None
            }
            _ => None,
        }
    }

    /// Of what the model says: its words, or the tool that it uses.
    fn part(&mut self, part: &Value) -> Option<String> {
        match part["type"].as_str()? {
            "text" => Some(self.say(part["text"].as_str()?.to_owned())),
            "tool_use" => {
                let name = part["name"].as_str()?;
                if name == "TodoWrite" {
                    self.keep_percent(&part["input"]["todos"], |one| one["status"] == "completed");
                }
                Some(tool(name, &part["input"]))
            }
            _ => None,
        }
    }

    fn codex(&mut self, event: &Value) -> Option<String> {
        match event["type"].as_str()? {
            "thread.started" => {
                self.keep_session(&event["thread_id"]);
                None
            }
            "item.started" | "item.updated" | "item.completed" => self.item(event),
            "turn.completed" => {
                self.keep_tokens(&event["usage"], &["input_tokens", "output_tokens"]);
                None
            }
            "turn.failed" => {
                self.keep_limit(event);
                self.fail(event["error"]["message"].as_str().map(short));
                None
            }
            "error" => {
                self.keep_limit(event);
                let said = event["message"]
                    .as_str()
                    .or(event["error"]["message"].as_str());
                self.fail(said.map(short));
                None
            }
            _ => None,
        }
    }

    fn item(&mut self, event: &Value) -> Option<String> {
        let item = &event["item"];
        let is_done = event["type"] == "item.completed";
        match item["type"].as_str()? {
            "agent_message" if is_done => Some(self.say(item["text"].as_str()?.to_owned())),
            "command_execution" if event["type"] == "item.started" => item["command"]
                .as_str()
                .map(|command| format!("$ {}", short(command))),
            "file_change" if is_done => {
                let changes = item["changes"].as_array()?.iter();
                let paths: Vec<&str> = changes
                    .filter_map(|change| change["path"].as_str())
                    .collect();
                Some(short(&format!("changed {}", paths.join(", "))))
            }
            "todo_list" => {
                self.keep_percent(&item["items"], |one| one["completed"] == true);
                None
            }
            _ => None,
        }
    }

    fn gemini(&mut self, event: &Value) -> Option<String> {
        self.keep_session(&event["session_id"]);
        match event["type"].as_str()? {
            "message" if event["role"] == "assistant" => {
                let text = event["content"].as_str()?;
                let so_far = match event["delta"] == true {
                    true => self.answer.take().unwrap_or_default(),
                    false => String::new(),
                };
                self.say(so_far + text);
                Some(short(text))
            }
            "tool_use" => {
                // What it says after a tool is a message of its own.
                (self.summary, self.answer) = (None, None);
                Some(tool(event["tool_name"].as_str()?, &event["parameters"]))
            }
            "error" => {
                self.keep_limit(event);
                event["message"].as_str().map(short)
            }
            "result" => {
                self.is_over = true;
                self.keep_tokens(&event["stats"], &["total_tokens"]);
                if event["status"] == "error" {
                    self.keep_limit(&event["error"]);
                    self.fail(event["error"]["message"].as_str().map(short));
                }
                None
            }
            _ => None,
        }
    }

    /// What it said last; as much of it as is shown.
    fn say(&mut self, mut text: String) -> String {
        text.truncate(text.floor_char_boundary(ANSWER_BYTES_MAX));
        let shown = short(&text);
        self.answer = Some(text);
        self.summary = Some(shown.clone());
        shown
    }

    fn keep_session(&mut self, id: &Value) {
        if let Some(id) = id.as_str().filter(|id| !id.starts_with('-')) {
            self.session = Some(id.to_owned());
        }
    }

    fn keep_tokens(&mut self, usage: &Value, names: &[&str]) {
        let mut told = names
            .iter()
            .filter_map(|name| usage[*name].as_u64())
            .peekable();
        if told.peek().is_some() {
            let sum = told.fold(0, u64::saturating_add);
            self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(sum));
        }
    }

    fn keep_percent(&mut self, list: &Value, is_done: impl Fn(&&Value) -> bool) {
        if let Some(all) = list.as_array().filter(|all| !all.is_empty()) {
            let done = all.iter().filter(is_done).count();
            self.percent = u8::try_from(done * 100 / all.len()).ok();
        }
    }

    fn fail(&mut self, said: Option<String>) {
        let said = said.unwrap_or_else(|| "the program reported an error".to_owned());
        if let Some(limit) = limit_in(&said) {
            let known = self.limit.and_then(|limit| limit.reset);
            self.limit = Some(Limit {
                reset: known.or(limit.reset),
            });
        }
        self.error = Some(said);
    }

    fn keep_limit(&mut self, told: &Value) {
        if let Some(reset) = reset(told, DEPTH_MAX) {
            self.limit = Some(Limit { reset: Some(reset) });
        }
    }
}

/// A limit in words: `… usage limit reached|1762952400`, `You've hit your usage limit …`, `quota … exceeded`.
fn limit_in(said: &str) -> Option<Limit> {
    let lower = said.to_lowercase();
    let words = [
        "usage limit",
        "hit your limit",
        "quota exceeded",
        "exceeded your current quota",
        "quota will reset",
    ];
    if !words.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let seconds = said
        .rsplit_once('|')
        .and_then(|(_, end)| end.trim().parse().ok());
    Some(Limit {
        reset: seconds.map(Reset::At),
    })
}

/// The time of a reset, wherever it stands in there.
fn reset(told: &Value, depth: usize) -> Option<Reset> {
    let members = told.as_object().filter(|_| depth > 0)?;
    let number = |names: [&str; 2]| names.iter().find_map(|name| members.get(*name)?.as_u64());
    let at = number(["resets_at", "resetsAt"]).map(Reset::At);
    let within = number(["resets_in_seconds", "resetsInSeconds"]).map(Reset::In);
    at.or(within)
        .or_else(|| members.values().find_map(|inner| reset(inner, depth - 1)))
}

/// A tool with the one argument that says what it is used for.
fn tool(name: &str, input: &Value) -> String {
    let names = [
        "command",
        "file_path",
        "path",
        "pattern",
        "query",
        "url",
        "description",
    ];
    let about = names.iter().find_map(|name| input[*name].as_str());
    match about {
        Some(about) => short(&format!("{name} {about}")),
        None => name.to_owned(),
    }
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
