//! Directories that others put files into: entered without following links, held by one hub, watched, looked through.
//!
//! Knows nothing of what the files say. The file door ([`crate::files`]) and the trigger files of [`crate::squidrun`]
//! stand on it.

mod cleanup;
mod file;
mod hints;
mod place;

pub use self::cleanup::{Cleaned, Cleanup};
pub use self::file::{FILE_NAME_BYTES_MAX, Found, Identity, explain, is_lasting, put};
pub use self::hints::{Heard, Hints, Interest};
pub use self::place::{Lock, Place, id, is_remote, names};
