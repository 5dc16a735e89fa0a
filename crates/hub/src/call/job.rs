//! A verb on its way to the writer: with the key that makes it happen once, and back with its reply.

use std::sync::Arc;

use switchboard_core::idempotency::Remembered;
use switchboard_core::{Changes, Refusal, Slice, Timestamp, Verb, Want};
use tokio::sync::oneshot;

use super::{Guard, Outcome};
use crate::hub::Error;
use crate::sequencer::{Failure, Job};

/// Prints a reply as the bytes that are kept under its key.
pub(crate) type Render<R> = fn(&R) -> Vec<u8>;

/// A verb whose empty reply is not worth remembering under its key.
pub(crate) struct Last<V: Verb> {
    pub verb: V,
    pub keep_empty: bool,
    pub is_something: fn(&V::Reply) -> bool,
}

impl<V: Verb> Verb for Last<V> {
    type Reply = V::Reply;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        self.verb.asks(want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(V::Reply, Changes), Refusal> {
        self.verb.decide(slice, now)
    }

    fn is_final(&self, reply: &V::Reply) -> bool {
        self.keep_empty || (self.is_something)(reply)
    }
}

/// Changes nothing: what its guard holds is kept, or only asked for.
pub(crate) struct Nothing {
    pub keeps_guard: bool,
}

impl Verb for Nothing {
    type Reply = ();

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, _slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        Ok(((), Changes::default()))
    }

    fn is_final(&self, (): &()) -> bool {
        self.keeps_guard
    }
}

/// A verb with its guard and whoever waits for the reply.
pub(crate) struct VerbJob<V: Verb> {
    verb: V,
    guard: Guard,
    render: Render<V::Reply>,
    reply: oneshot::Sender<Result<Outcome<V::Reply>, Error>>,
    decided: Option<Result<Outcome<V::Reply>, Error>>,
}

/// What a verb came to, once it is committed.
pub(crate) type Answer<R> = oneshot::Receiver<Result<Outcome<R>, Error>>;

impl<V> VerbJob<V>
where
    V: Verb + Send + 'static,
    V::Reply: Send,
{
    pub fn boxed(
        verb: V,
        guard: Guard,
        render: Render<V::Reply>,
    ) -> (Box<dyn Job>, Answer<V::Reply>) {
        let (reply, answer) = oneshot::channel();
        let job = VerbJob {
            verb,
            guard,
            render,
            reply,
            decided: None,
        };
        (Box::new(job), answer)
    }
}

impl<V: Verb> VerbJob<V> {
    /// Nothing changes, and yet the signature was used: a copy of it must not find the rules in another mood later.
    fn spent(&self) -> Option<Changes> {
        let mut changes = Changes::default();
        if let Some(nonce) = &self.guard.nonce {
            changes.put(nonce.clone());
        }
        if let Some(pass) = &self.guard.pass {
            pass.use_up(&mut changes);
        }
        (!changes.is_empty()).then_some(changes)
    }
}

impl<V> Job for VerbJob<V>
where
    V: Verb + Send,
    V::Reply: Send,
{
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Some(nonce) = &self.guard.nonce {
            want.nonce_was_seen(nonce);
        }
        if let Some(pass) = &self.guard.pass {
            pass.asks(want);
        }
        if let Some((key, _)) = &self.guard.key
            && want.remembered(key).is_some()
        {
            return;
        }
        self.verb.asks(want, now);
    }

    fn decide(&mut self, slice: &Slice, now: Timestamp) -> Option<Changes> {
        // Whoever asked has gone: a task handed out now would be held by nobody.
        if self.reply.is_closed() {
            return None;
        }
        let mut want = Want::new(slice);
        if let Some(nonce) = &self.guard.nonce
            && want.nonce_was_seen(nonce)
        {
            self.decided = Some(Err(Refusal::Replayed.into()));
            return None;
        }
        if let Some(pass) = &self.guard.pass
            && let Err(refusal) = pass.check(slice, now)
        {
            self.decided = Some(Err(refusal.into()));
            return None;
        }
        if let Some((key, body_hash)) = &self.guard.key
            && let Some(before) = want.remembered(key)
        {
            self.decided = Some(if before.body_hash == *body_hash {
                Ok(Outcome::Replayed(Arc::clone(&before.answer)))
            } else {
                Err(Refusal::KeyReused.into())
            });
            return self.spent();
        }
        match self.verb.decide(slice, now) {
            Err(refusal) => {
                let mut changes = self.spent();
                if let (Some(changes), Some(print), Some((key, body_hash))) =
                    (&mut changes, self.guard.keeps_refusal, self.guard.refusal())
                {
                    changes.put(Remembered {
                        key,
                        body_hash,
                        answer: print(&refusal).into(),
                        at: now,
                    });
                }
                self.decided = Some(Err(refusal.into()));
                changes
            }
            Ok((reply, mut changes)) => {
                let is_final = self.verb.is_final(&reply);
                let mut kept = None;
                if let Some(nonce) = self.guard.nonce.clone().filter(|_| is_final) {
                    changes.put(nonce);
                }
                if let Some(pass) = self.guard.pass.as_ref().filter(|_| is_final) {
                    pass.use_up(&mut changes);
                    pass.tell(slice, &mut changes, now);
                }
                if let Some((key, body_hash)) = &self.guard.key
                    && is_final
                {
                    let answer: Arc<[u8]> = (self.render)(&reply).into();
                    kept = Some(Arc::clone(&answer));
                    changes.put(Remembered {
                        key: key.clone(),
                        body_hash: *body_hash,
                        answer,
                        at: now,
                    });
                }
                self.decided = Some(Ok(Outcome::Fresh(reply, kept)));
                Some(changes)
            }
        }
    }

    fn answer(self: Box<Self>) {
        if let Some(decided) = self.decided {
            let _ = self.reply.send(decided);
        }
    }

    fn fail(self: Box<Self>, failure: &Failure) {
        let error = match failure {
            Failure::Unavailable(why) => Error::Unavailable(why.clone()),
            Failure::InDoubt(why) => Error::InDoubt(why.clone()),
            Failure::Panicked => Error::Broken,
        };
        let _ = self.reply.send(Err(error));
    }
}
