//! Any legal sender id survives the way into a certificate and out of it.

use std::sync::OnceLock;

use proptest::prelude::*;
use switchboard_core::limits;

use super::super::folder::Folder;
use super::super::index::Index;
use super::super::mint::{self, Signer, Span};
use super::super::seen;
use super::super::stored::read_authorities;
use super::*;

/// An authority that exists in memory only.
fn signer() -> &'static Signer {
    static SIGNER: OnceLock<Signer> = OnceLock::new();
    SIGNER.get_or_init(|| {
        let span = Span {
            now: Clock::system().now(),
            lasts: AUTHORITY_FOR,
        };
        let minted = mint::authority(span).unwrap();
        let kept = seen::certificates(&minted.cert).unwrap().remove(0);
        Signer::new(&kept, minted.key).unwrap()
    })
}

/// Text of any kind, cut to what an id may be.
fn legal_id() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        any::<String>(),
        "\\PC{1,128}",
        "[ -~]{1,128}",
        "[%:/a-c.]{1,128}",
        Just("ü".repeat(limits::ID_BYTES_MAX / 2)),
    ];
    text.prop_map(|text| {
        let mut id: String = text.chars().filter(|letter| !letter.is_control()).collect();
        while id.len() > limits::ID_BYTES_MAX {
            id.pop();
        }
        id
    })
    .prop_filter("an id is not empty", |id| !id.is_empty())
}

proptest! {
    #[test]
    fn any_legal_id_survives_a_certificate(id in legal_id(), operator in any::<bool>()) {
        let role = if operator { Role::Operator } else { Role::Worker };
        let name: Name = id.parse().unwrap();
        let span = Span { now: Clock::system().now(), lasts: DAY };
        let minted = mint::member(&name, role, span, signer()).unwrap();
        let kept = seen::certificates(&minted.cert).unwrap().remove(0);
        prop_assert_eq!(&kept.seen.member, &Some((name.clone(), role)));
        prop_assert_eq!(kept.seen.serial, minted.serial);
        prop_assert_eq!(kept.seen.not_after, minted.not_after);
        prop_assert!(kept.seen.hosts.is_empty());
        let stem = name.stem();
        prop_assert!(stem.len() < 200 && !stem.contains('/') && !stem.starts_with('.'));
    }

    #[test]
    fn files_of_any_content_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512), pem in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::of(dir.path());
        folder.make().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let text = if pem {
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        } else {
            text.into_owned()
        };
        folder.keep("ca.pem", &text).unwrap();
        folder.keep("index.json", &text).unwrap();
        prop_assert!(read_authorities(&folder).is_err());
        prop_assert!(Index::read(&folder).is_err());
    }
}
