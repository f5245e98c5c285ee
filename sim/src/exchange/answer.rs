//! Gives the answer: a stream, or a page.
//!
//! In: a call, or a page. Out: bytes on the wire, and how the connection goes on. Never decides what is answered.

use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

use super::{End, Exchange, Next};
use crate::call::Call;
use crate::carrier::Carrier;
use crate::chance::generator;
use crate::events::Events;
use crate::http::{Answer, CREATED, Ends, disguise};
use crate::order::Instead;
use crate::page::Page;
use crate::request::Version;
use crate::story::Story;
use crate::stream::{Broke, Manner, Stream};
use crate::tally::Held;
use crate::vllm::{DONE, ERROR_EVENT, Writer};

/// vLLM's streams.
const VLLM: Manner = Manner {
    head_alone: true,
    error: ERROR_EVENT,
    done: DONE,
};

impl<C: Carrier> Exchange<'_, C> {
    /// Answers an inference request, streamed or whole.
    pub(super) async fn answer(&mut self, call: &Call) -> Result<Next, End> {
        let shared = self.shared;
        let _running = shared.ledger.running();
        let mut held = shared.tally.begin(call.prompt_tokens());
        let story = Story::new(call, &self.settings, &self.order, self.turn);
        let mut writer = Writer::new(call, &self.settings.model, &self.id(), CREATED + self.turn);
        if call.stream {
            let events = Events::new(story, writer, self.order.comments, self.order.no_done);
            return self.stream(events, &mut held).await;
        }
        let (mut wait, mut deltas) = (Duration::ZERO, Vec::new());
        for step in story {
            wait += step.wait;
            deltas.extend(step.deltas);
        }
        self.carrier.until(Instant::now() + wait).await?;
        for delta in &deltas {
            held.generated(delta.tokens, delta.finish);
        }
        self.plain(Page::json(200, writer.plain(&deltas))).await
    }

    /// Sends a model's whole answer, and breaks off in its body where that is ordered.
    pub(super) async fn plain(&mut self, page: Page) -> Result<Next, End> {
        let (ends, body) = self.written(page);
        let at = |offset: u64| {
            usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(body.len())
        };
        let cut = self
            .order
            .cut
            .filter(|(after, _)| *after < body.len() as u64);
        let end = cut.map_or(body.len(), |(after, _)| at(after));
        if let Some((after, length)) = self.order.stall.filter(|(after, _)| at(*after) < end) {
            let sent = at(after);
            self.carrier
                .write(body.get(..sent).unwrap_or_default())
                .await?;
            match length {
                Some(length) => self.carrier.until(Instant::now() + length).await?,
                None => return Err(self.carrier.gone().await.into()),
            }
            self.carrier
                .write(body.get(sent..end).unwrap_or_default())
                .await?;
        } else {
            self.carrier
                .write(body.get(..end).unwrap_or_default())
                .await?;
        }
        if let Some((_, how)) = cut {
            return Err(End::Broken(how));
        }
        self.carrier.finish(ends).await?;
        Ok(self.next())
    }

    async fn stream(&mut self, events: Events, held: &mut Held<'_>) -> Result<Next, End> {
        let mut beats: Box<dyn Iterator<Item = _> + Send> = Box::new(events);
        let mut ends = self.unknown_length();
        if self.order.length {
            let told: Vec<_> = beats.collect();
            ends = Ends::Length(Events::length(&told));
            beats = Box::new(told.into_iter());
        }
        let head = self.head_of(200, "text/event-stream; charset=utf-8", ends, Vec::new());
        let mut stream = Stream::new(
            self.carrier,
            ends,
            &self.order,
            &VLLM,
            self.settings.keep_alive,
            self.shared.sigterm.subscribe(),
        );
        let end = stream.send(&head, beats, held).await;
        self.events = stream.events;
        self.streamed(end)
    }

    /// How the connection goes on after a stream.
    pub(super) fn streamed(&self, end: Result<(), Broke>) -> Result<Next, End> {
        match end {
            Ok(()) => Ok(self.next()),
            Err(Broke::Gone) => Err(End::Gone),
            Err(Broke::Cut(how)) => Err(End::Broken(how)),
        }
    }

    /// How the end of a body is told whose length is not.
    pub(super) fn unknown_length(&self) -> Ends {
        match self.head.version {
            Version::Http10 | Version::Http2(_) => Ends::Close,
            Version::Http11 => Ends::Chunked,
        }
    }

    /// What is not inference.
    pub(super) fn beside(&self) -> Page {
        Page::beside(&self.head, &self.settings, self.shared, &self.drawn_id())
    }

    /// Sends a whole answer.
    pub(super) async fn page(&mut self, page: Page) -> Result<Next, End> {
        let (ends, body) = self.written(page);
        self.carrier.write(&body).await?;
        self.carrier.finish(ends).await?;
        Ok(self.next())
    }

    /// A page as it goes out: its head is handed to the carrier, its body, unless only the head was asked for, comes back.
    fn written(&mut self, page: Page) -> (Ends, Vec<u8>) {
        let (ends, content_type) = match page.status {
            204 | 304 => (Ends::Empty, ""),
            _ if page.chunked => (self.unknown_length(), page.content_type),
            _ => (Ends::Length(page.body.len()), page.content_type),
        };
        let head = self.head_of(page.status, content_type, ends, page.fields);
        let mut body = page.body;
        if self.order.gzip {
            disguise(&mut body, true);
        }
        if self.head.method == "HEAD" {
            body.clear();
        }
        self.carrier.head(&head);
        (ends, ends.piece(&body))
    }

    pub(super) fn head_of(
        &self,
        status: u16,
        content_type: &'static str,
        ends: Ends,
        mut fields: Vec<String>,
    ) -> Answer<'static> {
        if self.order.gzip {
            fields.push("content-encoding: gzip".into());
        }
        let early = matches!(self.order.instead, Some(Instead::Early(_)));
        Answer {
            server: self.server(),
            status,
            content_type,
            ends,
            fields,
            request_id: self.settings.request_id_headers.then(|| self.id()),
            close: early || !self.head.keeps_alive(),
        }
    }

    pub(super) fn next(&self) -> Next {
        if self.order.close_after || !self.head.keeps_alive() {
            Next::Close
        } else {
            Next::Again
        }
    }

    /// The caller's id, else a drawn one.
    fn id(&self) -> String {
        self.head
            .header("x-request-id")
            .filter(|id| !id.is_empty())
            .map_or_else(|| self.drawn_id(), str::to_owned)
    }

    fn drawn_id(&self) -> String {
        format!(
            "{:016x}",
            generator(self.settings.seed, "id", &self.turn.to_le_bytes()).random::<u64>()
        )
    }
}
