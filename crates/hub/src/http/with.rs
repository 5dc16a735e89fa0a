//! A verb whose answer also needs something of the question.

use switchboard_core::{Changes, Refusal, Slice, Timestamp, Verb, Want};

pub struct With<V, T>(pub V, pub T);

impl<V: Verb, T: Clone> Verb for With<V, T> {
    type Reply = (T, V::Reply);

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        self.0.asks(want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Self::Reply, Changes), Refusal> {
        let (reply, changes) = self.0.decide(slice, now)?;
        Ok(((self.1.clone(), reply), changes))
    }

    fn is_final(&self, (_, reply): &Self::Reply) -> bool {
        self.0.is_final(reply)
    }
}
