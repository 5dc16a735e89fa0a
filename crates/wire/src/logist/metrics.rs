//! What a run cost, as far as it is reported: never guessed.

use serde_json::Value;
use switchboard_core::job::Tokens;
use switchboard_core::limits;

/// Before the metrics in a line on stderr.
const LINE: &str = "LOGIST_METRICS ";
const MICROS: f64 = 1e6;

/// What an agent or its program reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Millionths of a dollar.
    pub cost_micros: Option<u64>,
    pub tokens: Option<Tokens>,
    pub model: Option<String>,
}

impl Reported {
    /// What `metrics` says; what of it is no number is told and left out.
    pub fn read(metrics: &Value, warnings: &mut Vec<String>) -> Reported {
        if metrics.is_null() {
            return Reported::default();
        }
        let mut number = |name: &str| {
            let given = metrics.get(name).filter(|given| !given.is_null())?;
            let number = given
                .as_f64()
                .filter(|number| (0.0..=NUMBER_MAX).contains(number));
            if number.is_none() {
                let shown = given.to_string();
                let shown = limits::cut(&shown, SHOWN_BYTES_MAX);
                warnings.push(format!(
                    "metrics.{name}: expected a number from 0 to {NUMBER_MAX:e}, not {shown}"
                ));
            }
            number
        };
        let cost_micros = number("cost_usd").map(micros);
        let tokens = ["token_input", "token_output", "token_cache_read"]
            .map(|name| number(name).map(|count| count as u64));
        let [input, output, cache_read] = tokens.map(Option::unwrap_or_default);
        Reported {
            cost_micros,
            tokens: tokens.iter().any(Option::is_some).then_some(Tokens {
                input,
                output,
                cache_read,
            }),
            model: metrics["model"]
                .as_str()
                .map(|model| limits::cut(model, limits::NAME_BYTES_MAX).to_owned()),
        }
    }

    /// What the last line with metrics on stderr says.
    pub fn of_stderr(stderr: &str, warnings: &mut Vec<String>) -> Reported {
        let line = stderr
            .lines()
            .rev()
            .find_map(|line| line.trim().strip_prefix(LINE));
        let metrics = line.map(serde_json::from_str::<Value>);
        match metrics {
            None => Reported::default(),
            Some(Ok(metrics)) => Reported::read(&metrics, warnings),
            Some(Err(error)) => {
                warnings.push(format!(
                    "the line LOGIST_METRICS on stderr is not JSON: {error}"
                ));
                Reported::default()
            }
        }
    }

    /// This, and where it says nothing what another says.
    pub fn or(self, other: Reported) -> Reported {
        Reported {
            cost_micros: self.cost_micros.or(other.cost_micros),
            tokens: self.tokens.or(other.tokens),
            model: self.model.or(other.model),
        }
    }
}

/// Dollars and tokens of one run.
const NUMBER_MAX: f64 = 1e9;
const SHOWN_BYTES_MAX: usize = 80;

pub(super) fn micros(dollars: f64) -> u64 {
    (dollars * MICROS).round() as u64
}

pub(super) fn dollars(micros: u64) -> f64 {
    micros as f64 / MICROS
}

/// Cents, with their fractions.
pub(super) fn cents(micros: u64) -> f64 {
    micros as f64 / 1e4
}

pub(super) fn of_cents(cents: f64) -> u64 {
    (cents * 1e4).round() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_reported_is_taken_and_what_is_no_number_told() {
        for (metrics, cost, warnings) in [
            (json!(null), None, 0),
            (json!({}), None, 0),
            (json!({ "cost_usd": 0 }), Some(0), 0),
            (json!({ "cost_usd": 0.0034 }), Some(3400), 0),
            (json!({ "cost_usd": 0.000_000_4 }), Some(0), 0),
            (json!({ "cost_usd": -0.1 }), None, 1),
            (json!({ "cost_usd": "0.1" }), None, 1),
            (json!({ "cost_usd": 1e300, "token_input": -1 }), None, 2),
            (json!("x"), None, 0),
        ] {
            let mut told = Vec::new();
            let found = Reported::read(&metrics, &mut told);
            assert_eq!(
                (found.cost_micros, told.len()),
                (cost, warnings),
                "{metrics}: {told:?}"
            );
        }
    }

    #[test]
    fn the_last_line_with_metrics_counts() {
        let stderr = "LOGIST_METRICS {\"cost_usd\":1}\nx\n LOGIST_METRICS {\"cost_usd\":2,\"token_input\":3}\nbye\n";
        let mut told = Vec::new();
        let found = Reported::of_stderr(stderr, &mut told);
        let said = Reported {
            cost_micros: Some(5),
            ..Reported::default()
        }
        .or(found);
        assert_eq!(
            (said.cost_micros, said.tokens.map(|tokens| tokens.input)),
            (Some(5), Some(3))
        );
        assert_eq!(
            Reported::of_stderr("LOGIST_METRICS {", &mut told),
            Reported::default()
        );
        assert!(told[0].contains("is not JSON"), "{told:?}");
    }
}
