//! Telegram: what a person writes to the bot is said to the architect, and what waits in the mailbox `telegram` is sent.
//!
//! `wire::squidrun::telegram` knows the Bot API's words, [`bot`] speaks them over HTTPS. Of several coordinators one reads
//! and sends ([`work`]), as a duty. Who gets a copy, and what senders are told, is for the rules and the broker to say.

mod bot;
mod surface;
mod work;

pub(crate) use surface::SURFACE;
pub(crate) use work::SEND_WITHIN;
