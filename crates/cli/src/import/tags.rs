//! The inline tags of a Markdown item: `p:high #rust ~30m @agent after:ID id:ID type:TYPE branch:BRANCH`.

use std::str::FromStr;

use switchboard_client::jetpack::{NewTask, Priority, TaskType};

use super::Draft;

/// What the words of one item ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tags {
    id: Option<String>,
    priority: Option<Priority>,
    kind: Option<TaskType>,
    branch: Option<String>,
    skills: Vec<String>,
    audience: Vec<String>,
    after: Vec<String>,
    minutes: Option<u32>,
}

/// Splits an item's words into its title and its tags. Words inside `code spans` are never tags.
pub fn words(text: &str) -> Result<(String, Tags), String> {
    let mut tags = Tags::default();
    let mut title: Vec<&str> = Vec::new();
    let mut in_code = false;
    for word in text.split_whitespace() {
        let ticks = word.matches('`').count();
        let tag = !in_code && ticks == 0 && tags.take(word)?;
        if !tag {
            // A leading backslash keeps a word that would be a tag: `\#rust`.
            title.push(if in_code { word } else { escaped(word) });
        }
        in_code ^= ticks % 2 == 1;
    }
    Ok((title.join(" "), tags))
}

fn escaped(word: &str) -> &str {
    match word.strip_prefix('\\') {
        Some(rest) if rest.starts_with(['#', '@', '~']) || rest.contains(':') => rest,
        _ => word,
    }
}

impl Tags {
    /// Takes `word` if it is a tag.
    fn take(&mut self, word: &str) -> Result<bool, String> {
        if let Some(skill) = word.strip_prefix('#') {
            // `#12` and a lone `#` are text: they mean an issue or a number, not a skill.
            let named = skill.starts_with(|first: char| first.is_alphabetic());
            if named {
                self.skills
                    .push(skill.trim_end_matches([',', ';', '.']).to_owned());
            }
            return Ok(named);
        }
        if let Some(agent) = word.strip_prefix('@') {
            // `@types/node` is a package.
            let named = !agent.is_empty()
                && agent
                    .chars()
                    .all(|c| c.is_alphanumeric() || "-_.:".contains(c));
            if named {
                self.audience.push(agent.to_owned());
            }
            return Ok(named);
        }
        if let Some(estimate) = word.strip_prefix('~') {
            if !estimate.starts_with(|first: char| first.is_ascii_digit()) {
                return Ok(false);
            }
            self.minutes = Some(minutes(estimate)?);
            return Ok(true);
        }
        let Some((key, value)) = word.split_once(':') else {
            return Ok(false);
        };
        if !matches!(key, "p" | "priority" | "id" | "type" | "branch" | "after") {
            return Ok(false);
        }
        if value.is_empty() {
            return Err(format!("{key}: has no value"));
        }
        match key {
            "id" => self.id = Some(value.to_owned()),
            "type" => self.kind = Some(known("type", value)?),
            "branch" => self.branch = Some(value.to_owned()),
            "after" => self.after.extend(
                value
                    .split(',')
                    .filter(|id| !id.is_empty())
                    .map(str::to_owned),
            ),
            _ => self.priority = Some(known("priority", value)?),
        }
        Ok(true)
    }

    /// What a nested item starts from.
    pub fn inherited(&self) -> Tags {
        Tags {
            id: None,
            after: Vec::new(),
            minutes: None,
            ..self.clone()
        }
    }

    pub fn over(mut self, below: Tags) -> Tags {
        let join = |mut above: Vec<String>, below: Vec<String>| {
            for word in below {
                if !above.contains(&word) {
                    above.push(word);
                }
            }
            above
        };
        self.priority = self.priority.or(below.priority);
        self.kind = self.kind.or(below.kind);
        self.branch = self.branch.or(below.branch);
        self.skills = join(self.skills, below.skills);
        // An own audience replaces: `@builder-2` under `@builder-1` means builder-2.
        if self.audience.is_empty() {
            self.audience = below.audience;
        }
        self
    }

    pub fn draft(&self, line: usize, title: String) -> Draft {
        let task = NewTask {
            id: self.id.clone(),
            title,
            priority: self.priority,
            kind: self.kind,
            required_skills: self.skills.clone(),
            dependencies: self.after.clone(),
            estimated_minutes: self.minutes,
            branch: self.branch.clone(),
            audience: self.audience.clone(),
            ..NewTask::default()
        };
        Draft { line, task }
    }
}

/// One of the protocol's words, or a reason that lists them.
fn known<T: FromStr>(name: &str, text: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| format!("{name}: {error}"))
}

/// `30m`, `2h`, `1h30m`, `90` (minutes), `1d` (a working day of eight hours).
pub fn minutes(text: &str) -> Result<u32, String> {
    let bad = || format!("'{text}' is not an estimate; write 30m, 2h, 1h30m or 90 (minutes)");
    let mut total = 0_u32;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u32 = rest[..digits].parse().map_err(|_| bad())?;
        let mut unit = rest[digits..].chars();
        let factor = match unit.next() {
            None | Some('m') => 1,
            Some('h') => 60,
            Some('d') => 480,
            Some(_) => return Err(bad()),
        };
        total = number
            .checked_mul(factor)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(bad)?;
        rest = unit.as_str();
    }
    if total == 0 { Err(bad()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_read_and_overflow_is_refused() {
        for (text, expected) in [
            ("30m", 30),
            ("2h", 120),
            ("1h30m", 90),
            ("45", 45),
            ("1d", 480),
        ] {
            assert_eq!(minutes(text), Ok(expected));
        }
        for text in ["", "0m", "h", "5x", "99999999999m", "4294967295h"] {
            assert!(minutes(text).is_err(), "{text}");
        }
    }
}
