//! Sends a streamed answer: waits, writes, and breaks off where it was told to.
//!
//! In: beats and an order. Out: writes on the wire. Head, first beat, each further beat, `[DONE]` and the last chunk are
//! writes of their own, as vLLM's are. Never goes on for a client that has gone.

use std::time::Duration;

use tokio::time::Instant;

use crate::carrier::Carrier;
use crate::events::Beat;
use crate::http::{Answer, Ends, disguise};
use crate::order::{How, Order};
use crate::sigterm::{Signal, Struck, struck};
use crate::tally::Held;
use crate::vllm::KEEP_ALIVE;
use crate::wire::Gone;

/// How a server streams.
pub(crate) struct Manner {
    /// The head leaves before the first event is there.
    pub(crate) head_alone: bool,
    /// The event of an error in the stream.
    pub(crate) error: &'static str,
    /// What follows it; may be nothing.
    pub(crate) done: &'static str,
}

/// Why a stream did not come to its end.
pub(crate) enum Broke {
    Gone,
    /// The order's cut, to be done by who owns the wire.
    Cut(How),
}

impl From<Gone> for Broke {
    fn from(_: Gone) -> Broke {
        Broke::Gone
    }
}

/// Why beats were not told to their end.
enum Halt {
    Broke(Broke),
    Struck(Struck),
}

impl<T: Into<Broke>> From<T> for Halt {
    fn from(broke: T) -> Halt {
        Halt::Broke(broke.into())
    }
}

pub(crate) struct Stream<'a, C> {
    carrier: &'a mut C,
    ends: Ends,
    order: &'a Order,
    manner: &'static Manner,
    keep_alive: Option<Duration>,
    signal: Signal,
    /// Token events written.
    pub(crate) events: u64,
    pending: Vec<u8>,
    stalled: bool,
    disguised: bool,
    due: Instant,
}

impl<'a, C: Carrier> Stream<'a, C> {
    pub(crate) fn new(
        carrier: &'a mut C,
        ends: Ends,
        order: &'a Order,
        manner: &'static Manner,
        keep_alive: Option<Duration>,
        signal: Signal,
    ) -> Stream<'a, C> {
        Stream {
            carrier,
            ends,
            order,
            manner,
            keep_alive,
            signal,
            events: 0,
            pending: Vec::new(),
            stalled: false,
            disguised: false,
            due: Instant::now(),
        }
    }

    /// Sends the head and all beats; `Ok` when the answer came to an end, be it one that a signal brought about.
    pub(crate) async fn send(
        &mut self,
        head: &Answer<'_>,
        beats: impl Iterator<Item = Beat>,
        held: &mut Held<'_>,
    ) -> Result<(), Broke> {
        match self.tell(head, beats, held).await {
            Ok(()) => Ok(()),
            Err(Halt::Broke(broke)) => Err(broke),
            Err(Halt::Struck(Struck::Aborted)) => self.error().await,
            Err(Halt::Struck(Struck::Silenced)) => Err(self.carrier.gone().await.into()),
        }
    }

    async fn tell(
        &mut self,
        head: &Answer<'_>,
        beats: impl Iterator<Item = Beat>,
        held: &mut Held<'_>,
    ) -> Result<(), Halt> {
        self.carrier.head(head);
        if self.manner.head_alone {
            self.carrier.write(b"").await?;
        }
        for beat in beats {
            if self.broken_off().await? {
                return Ok(());
            }
            // From the last due time, so that what a step costs does not add to its wait.
            self.due += beat.wait;
            self.quiet(Some(self.due)).await?;
            for event in beat.events {
                if event.apart {
                    self.flush().await?;
                }
                // Between the events of one beat an order may break off too; then what came before must have left.
                if event.tokens.is_some() && self.ordered_here() {
                    self.flush().await?;
                    if self.broken_off().await? {
                        return Ok(());
                    }
                }
                self.push(event.text.as_bytes());
                if let Some((tokens, finish)) = event.tokens {
                    self.events += 1;
                    held.generated(tokens, finish);
                }
            }
            self.flush().await?;
        }
        Ok(self.finish().await?)
    }

    fn push(&mut self, event: &[u8]) {
        let mut bytes = event.to_vec();
        if self.order.gzip {
            disguise(&mut bytes, !std::mem::replace(&mut self.disguised, true));
        }
        self.pending.extend(self.ends.piece(&bytes));
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            Ok(())
        } else {
            self.carrier.write(&pending).await
        }
    }

    async fn finish(&mut self) -> Result<(), Broke> {
        Ok(self.carrier.finish(self.ends).await?)
    }

    /// Whether something is ordered after just as many events as were sent.
    fn ordered_here(&self) -> bool {
        let at = Some(self.events);
        self.order.cut.map(|(after, _)| after) == at
            || (self.order.stall.map(|(after, _)| after) == at && !self.stalled)
            || self.order.error == at
    }

    /// Does what is ordered after just as many events as were sent; true when that ended the answer.
    async fn broken_off(&mut self) -> Result<bool, Halt> {
        if let Some((after, length)) = self.order.stall
            && after == self.events
            && !std::mem::replace(&mut self.stalled, true)
        {
            self.quiet(length.map(|length| Instant::now() + length))
                .await?;
            self.due = Instant::now();
        }
        if let Some((after, how)) = self.order.cut
            && after == self.events
        {
            return Err(Broke::Cut(how).into());
        }
        if self.order.error == Some(self.events) {
            self.error().await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Ends the answer with the event of an error.
    async fn error(&mut self) -> Result<(), Broke> {
        self.push(self.manner.error.as_bytes());
        self.flush().await?;
        if !self.order.no_done && !self.manner.done.is_empty() {
            self.push(self.manner.done.as_bytes());
            self.flush().await?;
        }
        self.finish().await
    }

    /// Waits until `due`, if ever; until the client leaves; or until a signal that ends streams.
    async fn pause(&mut self, due: Option<Instant>) -> Result<(), Halt> {
        let carrier = &mut *self.carrier;
        let waited = async {
            match due {
                Some(due) => carrier.until(due).await,
                None => Err(carrier.gone().await),
            }
        };
        tokio::select! {
            biased;
            how = struck(&mut self.signal) => Err(Halt::Struck(how)),
            waited = waited => Ok(waited?),
        }
    }

    /// Waits until `due`, or until the client leaves, and sends a comment whenever the interval passes.
    async fn quiet(&mut self, due: Option<Instant>) -> Result<(), Halt> {
        loop {
            // A length told beforehand leaves no room for comments.
            let comment = match (self.keep_alive, self.ends) {
                (Some(interval), Ends::Chunked | Ends::Close) => Some(Instant::now() + interval),
                (None, _) | (Some(_), Ends::Length(_) | Ends::Empty) => None,
            };
            match (due, comment) {
                (Some(due), Some(comment)) if comment >= due => return self.pause(Some(due)).await,
                (_, None) => return self.pause(due).await,
                (_, Some(comment)) => self.pause(Some(comment)).await?,
            }
            self.push(KEEP_ALIVE.as_bytes());
            self.flush().await?;
        }
    }
}
