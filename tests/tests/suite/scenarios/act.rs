//! What a step does: one request of `docs/http-api.md`, or a move of the clock.

mod agents;
mod files;
mod tasks;

use std::time::Duration;

use serde_json::{Map, Value};

use super::line::{self, Given};

#[derive(Debug)]
pub enum Deed {
    Call(Call),
    /// The scene's clock, counted from its beginning.
    At(Duration),
    Wait(Duration),
    /// Nobody serves the ledger for so long, then a hub starts.
    Down(Duration),
    /// What is due is done.
    Caretake,
    /// What is old is forgotten.
    Sweep,
}

/// A request, by the name of its route in `switchboard_wire::jetpack::ROUTES`.
#[derive(Debug, Default)]
pub struct Call {
    pub route: &'static str,
    /// The id in the path.
    pub id: Option<String>,
    /// The body, or the query of a GET.
    pub given: Map<String, Value>,
    /// The idempotency key.
    pub key: Option<String>,
    /// Which part of the answer is told.
    pub view: View,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Whole,
    Attempts,
    Dependants,
    Holds,
    Orders,
}

impl Deed {
    pub fn moves_time(&self) -> bool {
        match self {
            Deed::At(_) | Deed::Wait(_) | Deed::Down(_) => true,
            Deed::Call(_) | Deed::Caretake | Deed::Sweep => false,
        }
    }

    pub fn needs_keys(&self) -> bool {
        matches!(self, Deed::Call(Call { key: Some(_), .. }))
    }
}

type Parse = fn(&mut Given) -> Result<Call, String>;

/// Every step that is a request.
const STEPS: &[(&str, Parse)] = &[
    ("agent", agents::register),
    ("heartbeat", agents::heartbeat),
    ("who", agents::who),
    ("holds", agents::holds),
    ("orders", agents::orders),
    ("command", agents::command),
    ("leave", agents::leave),
    ("pause", agents::pause),
    ("resume", agents::resume),
    ("send", agents::send),
    ("receive", agents::receive),
    ("ack", agents::acknowledge),
    ("message", agents::message),
    ("task", tasks::create),
    ("claim", tasks::claim),
    ("progress", tasks::progress),
    ("complete", tasks::complete),
    ("fail", tasks::fail),
    ("show", tasks::show),
    ("history", tasks::history),
    ("dependants", tasks::dependants),
    ("list", tasks::list),
    ("why", tasks::why),
    ("change", tasks::change),
    ("release", tasks::release),
    ("cancel", tasks::cancel),
    ("retry", tasks::retry),
    ("approve", tasks::approve),
    ("reject", tasks::reject),
    ("lease", files::acquire),
    ("extend", files::extend),
    ("unlease", files::release),
    ("check", files::check),
    ("leases", files::list),
    ("baseline", files::baseline),
    ("snapshots", files::snapshots),
    ("memory", files::memory),
    ("events", files::events),
];

pub fn parse(name: &str, words: &[String]) -> Result<Deed, String> {
    // Several tasks in one line are told apart before their words are.
    if name == "tasks" {
        return tasks::several(words).map(Deed::Call);
    }
    let mut given = Given::new(words);
    let deed = match name {
        "at" => Deed::At(line::span(&given.next("when?")?)?),
        "wait" => Deed::Wait(line::span(&given.next("how long?")?)?),
        "down" => Deed::Down(line::span(&given.next("how long?")?)?),
        "caretake" => Deed::Caretake,
        "sweep" => Deed::Sweep,
        _ => {
            let step = STEPS.iter().find(|(step, _)| *step == name);
            let (_, read) = step.ok_or_else(|| format!("there is no step `{name}`"))?;
            let key = given.text("key");
            let call = read(&mut given)?;
            Deed::Call(Call { key, ..call })
        }
    };
    given.finish()?;
    Ok(deed)
}

impl Call {
    fn of(route: &'static str) -> Self {
        Call {
            route,
            ..Call::default()
        }
    }

    fn about(route: &'static str, id: String) -> Self {
        Call {
            id: Some(id),
            ..Call::of(route)
        }
    }

    fn view(self, view: View) -> Self {
        Call { view, ..self }
    }

    /// A member, if there is anything to say.
    fn with(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.given.insert(name.to_owned(), value.into());
        }
        self
    }

    fn having(self, name: &str, value: impl Into<Value>) -> Self {
        self.with(name, Some(value))
    }
}

/// An object of the members that have a value, or nothing.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Option<Value> {
    let filled = members
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    let map: Map<String, Value> = filled.collect();
    (!map.is_empty()).then_some(Value::Object(map))
}
