//! Who can be spoken to and who speaks: the canonical roles, those that are configured, and the words for each.

use switchboard_core::id::{TELEGRAM, USER};
use switchboard_core::verb::Speaker;
use switchboard_core::{AgentId, limits};

use super::header::is_word;
use crate::Malformed;
use crate::jetpack::from_wire::check;

/// Who speaks when nobody says who.
pub const CLI: &str = "cli";

/// Somebody who has a terminal and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// The canonical target.
    pub id: String,
    pub title: String,
    pub pane: String,
    /// Other words for the target.
    pub aliases: Vec<String>,
    /// Words for it in a header, beside the target itself; upper case.
    pub header: Vec<String>,
    pub responsibilities: String,
    pub skills: Vec<String>,
    /// What starts its program.
    pub command: Option<String>,
}

impl Role {
    /// Who owns it, if it is a background slot: no role of its own, it takes part in no roll call and no broadcast.
    pub fn owner(&self) -> Option<&'static str> {
        self.id.starts_with(SLOT).then_some(BUILDER)
    }

    fn words(&self) -> impl Iterator<Item = &String> {
        [&self.id, &self.pane].into_iter().chain(&self.aliases)
    }

    fn header_words(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.id).chain(&self.header)
    }
}

/// Whom a word names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Role(AgentId),
    Slot { id: AgentId, owner: AgentId },
    User,
    Telegram,
}

impl Target {
    pub fn id(&self) -> AgentId {
        match self {
            Self::Role(id) | Self::Slot { id, .. } => id.clone(),
            Self::User => USER.into(),
            Self::Telegram => TELEGRAM.into(),
        }
    }
}

/// Every role, the canonical ones first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles(Vec<(AgentId, Role)>);

impl Default for Roles {
    fn default() -> Self {
        Self(CANONICAL.iter().map(canonical).collect())
    }
}

impl Roles {
    /// The canonical ones and more; no word may name two. Of a canonical one, the command alone can be set.
    pub fn with(more: Vec<Role>) -> Result<Roles, Malformed> {
        if more.len() > limits::ROLES_MAX {
            let message = format!("has more than {} roles", limits::ROLES_MAX);
            return Err(Malformed::field("squidrun.roles", message));
        }
        let mut roles = Roles::default();
        for role in more {
            let is_it = |(id, known): &&mut (AgentId, Role)| {
                role.id.eq_ignore_ascii_case(id.as_str()) && known.owner().is_none()
            };
            if let Some((_, known)) = roles.0.iter_mut().take(CANONICAL.len()).find(is_it) {
                known.command = command_alone(role, &known.id)?;
                continue;
            }
            let role = roles.checked(role)?;
            roles.0.push((AgentId::from(role.id.as_str()), role));
        }
        Ok(roles)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.0.iter().map(|(_, role)| role)
    }

    /// The ids of all that are no slots.
    pub fn ids(&self) -> impl Iterator<Item = &AgentId> {
        let roles = self.0.iter().filter(|(_, role)| role.owner().is_none());
        roles.map(|(id, _)| id)
    }

    /// Whom a target, alias or pane names, in any case.
    pub fn target(&self, word: &str) -> Option<Target> {
        let word = word.trim();
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        match self.by_word(word) {
            Some((id, role)) => Some(match role.owner() {
                Some(owner) => Target::Slot {
                    id: id.clone(),
                    owner: owner.into(),
                },
                None => Target::Role(id.clone()),
            }),
            None if is(USER) => Some(Target::User),
            None if is(TELEGRAM) => Some(Target::Telegram),
            None => None,
        }
    }

    fn by_word(&self, word: &str) -> Option<&(AgentId, Role)> {
        self.0.iter().find(|(_, role)| has(role.words(), word))
    }

    /// Whose word in a header it is.
    pub fn by_header(&self, word: &str) -> Option<&Role> {
        self.iter().find(|role| has(role.header_words(), word))
    }

    /// Who speaks under a word. One that nobody may have speaks as [`CLI`].
    pub fn speaker(&self, word: &str) -> Speaker {
        match self.target(word) {
            Some(Target::Role(id)) => Speaker::Role(id),
            Some(Target::Slot { id, owner }) => Speaker::Slot { id, owner },
            Some(Target::User) => Speaker::Other(USER.into()),
            Some(Target::Telegram) => Speaker::Other(CLI.into()),
            None => {
                let id = check::agent_id("role", word.trim()).ok();
                let free = id.filter(|id| !is_reserved(id.as_str()));
                Speaker::Other(free.unwrap_or_else(|| CLI.into()))
            }
        }
    }

    /// A configured role whose words are its own.
    fn checked(&self, mut role: Role) -> Result<Role, Malformed> {
        role.id.make_ascii_lowercase();
        role.header
            .iter_mut()
            .for_each(|it| it.make_ascii_uppercase());
        let at = format!(
            "squidrun.roles.{}",
            limits::cut(&role.id, limits::ROLE_WORD_BYTES_MAX)
        );
        let place = |member: &str| format!("{at}.{member}");
        let (aliases, header) = (place("aliases"), place("header"));
        check::each(&aliases, &role.aliases, limits::ROLE_WORDS_MAX, |_, _| {
            Ok(())
        })?;
        check::each(&header, &role.header, limits::ROLE_WORDS_MAX, |_, _| Ok(()))?;
        if role.pane.is_empty() {
            return Err(Malformed::missing(place("pane")));
        }
        let pane = place("pane");
        let fields = [&at, &pane].into_iter().chain(std::iter::repeat(&aliases));
        for (field, word) in fields.zip(role.words()) {
            free(field, word, self.by_word(word).map(|(_, role)| role))?;
        }
        let fields = std::iter::once(&at).chain(std::iter::repeat(&header));
        for (field, word) in fields.zip(role.header_words()) {
            free(field, word, self.by_header(word))?;
        }
        check::text(
            &place("responsibilities"),
            &role.responsibilities,
            limits::NOTE_BYTES_MAX,
        )?;
        check::text(&place("title"), &role.title, limits::NAME_BYTES_MAX)?;
        check::skills(&place("skills"), &role.skills)?;
        check_command(&at, &role)?;
        if role.title.is_empty() {
            role.title = role.id.clone();
            role.title[..1].make_ascii_uppercase();
        }
        Ok(role)
    }
}

/// The command of a canonical role, whose table has nothing else.
fn command_alone(role: Role, id: &str) -> Result<Option<String>, Malformed> {
    let at = format!("squidrun.roles.{id}");
    check_command(&at, &role)?;
    let alone = Role {
        id: role.id.clone(),
        command: role.command.clone(),
        ..Role::default()
    };
    if role != alone {
        let message = format!("the role {id} is built in; only its command can be set");
        return Err(Malformed::field(at, message));
    }
    Ok(role.command)
}

fn check_command(at: &str, role: &Role) -> Result<(), Malformed> {
    let Some(command) = &role.command else {
        return Ok(());
    };
    check::filled(&format!("{at}.command"), command, limits::NOTE_BYTES_MAX)
}

fn has<'a>(mut words: impl Iterator<Item = &'a String>, word: &str) -> bool {
    words.any(|it| it.eq_ignore_ascii_case(word))
}

/// Whether a configured role may have this word.
fn free(field: &str, word: &str, taken_by: Option<&Role>) -> Result<(), Malformed> {
    let shown = limits::cut(word, limits::ROLE_WORD_BYTES_MAX);
    let message = match taken_by {
        _ if !is_word(word) => format!(
            "'{shown}' must be 1 to {} letters, digits, - and _, a letter or digit first",
            limits::ROLE_WORD_BYTES_MAX
        ),
        Some(Role { id, .. }) => {
            format!("'{shown}' is taken by the role {id}; choose another word")
        }
        None if is_reserved(word) => format!("'{shown}' is reserved; choose another word"),
        None => return Ok(()),
    };
    Err(Malformed::field(field, message))
}

/// Whether a word means something else, or somebody who is no agent.
fn is_reserved(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    AgentId::from(word.as_str()).is_reserved()
        || RESERVED.contains(&word.as_str())
        || RESERVED_BEGINNINGS.iter().any(|it| word.starts_with(it))
}

/// Names of trigger files, and background slots.
const RESERVED: [&str; 2] = ["workers", "implementers"];
const RESERVED_BEGINNINGS: [&str; 3] = ["others-", SLOT, "bg-"];

pub(super) const BUILDER: &str = "builder";
const SLOT: &str = "builder-bg-";

/// Target, role, pane, aliases, header words, responsibilities.
type Canonical = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
const CANONICAL: [Canonical; 6] = [
    ("architect", "Architect", "1", "arch lead director", "ARCH ARCHITECT LEAD DIRECTOR", "coordination, decisions, review"),
    (BUILDER, "Builder", "2", "devops orchestrator infra infrastructure backend back worker-b implementer-b", "BUILDER DEVOPS", "implementation, testing, devops"),
    ("oracle", "Oracle", "3", "analyst ana investigator", "ORACLE ANALYST ANA", "investigation, docs, benchmarks"),
    ("builder-bg-1", "Background Builder Slot 1", "bg-2-1", "", "BUILDER-BG-1", DELEGATED),
    ("builder-bg-2", "Background Builder Slot 2", "bg-2-2", "", "BUILDER-BG-2", DELEGATED),
    ("builder-bg-3", "Background Builder Slot 3", "bg-2-3", "", "BUILDER-BG-3", DELEGATED),
];

const DELEGATED: &str = "implementation delegated by Builder";

fn canonical(row: &Canonical) -> (AgentId, Role) {
    let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
    let (id, title, pane, aliases, header, responsibilities) = *row;
    let role = Role {
        id: id.to_owned(),
        title: title.to_owned(),
        pane: pane.to_owned(),
        aliases: words(aliases),
        header: words(header),
        responsibilities: responsibilities.to_owned(),
        ..Role::default()
    };
    (id.into(), role)
}
