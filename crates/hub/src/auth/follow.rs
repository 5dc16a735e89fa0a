//! Takes up a master key that was replaced while the hub runs.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::signature::MasterKey;

use crate::call::Calls;
use crate::data_dir::{Key, Keys};

/// A replaced key works no longer than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks where the ledger's key is kept, for as long as the hub runs. A key that cannot be read changes nothing.
pub async fn follow(calls: Arc<Calls>, keys: Keys, mut current: Key) {
    let keys = Arc::new(keys);
    let mut was_told = false;
    loop {
        tokio::select! {
            () = calls.stopping.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match look(&calls, &keys, current).await {
            Ok(key) if key == current => was_told = false,
            Ok(key) => {
                calls.auth.replace(MasterKey::new(key));
                current = key;
                tracing::warn!(
                    "the master key was replaced: agent keys and tokens derived from the old one no longer work"
                );
            }
            Err(why) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::warn!("the master key cannot be read and stays as it was: {why}");
                }
            }
        }
    }
}

/// The key that is kept now.
async fn look(calls: &Calls, keys: &Arc<Keys>, current: Key) -> Result<Key, String> {
    let shared = match calls.hub.is_shared() {
        true => {
            let key = match calls.hub.read(|reader| reader.shared_key()).await {
                // A ledger that is away has everybody's attention already.
                Err(error) if error.may_pass() => None,
                read => read.map_err(|error| error.to_string())?,
            };
            Some(key.unwrap_or(current))
        }
        false => None,
    };
    let keys = Arc::clone(keys);
    let kept = tokio::task::spawn_blocking(move || match shared {
        Some(key) if key == current => Ok(key),
        Some(key) => keys.follow(&current, &key).map(|()| key),
        None => Ok(keys.own()?.unwrap_or(current)),
    });
    let kept = kept.await.map_err(|error| error.to_string())?;
    kept.map_err(|error| error.to_string())
}
