//! Gives Triton's answers over HTTP.
//!
//! In: what was asked of a model. Out: a page, or a stream of events. Never decides what a model says.

use std::time::Duration;

use tokio::time::Instant;

use super::{End, Exchange, Next};
use crate::carrier::Carrier;
use crate::events::{Beat, Event};
use crate::page::Page;
use crate::story::Finish;
use crate::stream::{Manner, Stream};
use crate::triton::{
    Asked, Call, ERROR_EVENT, Replies, Reply, Verb, generated, inferred, one_expected,
};

/// Triton's streams.
const TRITON: Manner = Manner {
    head_alone: false,
    error: ERROR_EVENT,
    done: "",
};

impl<C: Carrier> Exchange<'_, C> {
    /// Answers an inference request in one of Triton's forms.
    pub(super) async fn triton(&mut self, asked: &Asked, body: &[u8]) -> Result<Next, End> {
        let _running = self.shared.ledger.running();
        let call = match asked.read(&self.head, body) {
            Ok(call) => call,
            Err(page) => return self.page(page).await,
        };
        let replies = Replies::new(
            call.model,
            &call.inputs,
            &self.settings,
            &self.order,
            self.turn,
        );
        if call.verb == Verb::GenerateStream {
            return self.events(&call, replies).await;
        }
        let (mut wait, mut said) = (Duration::ZERO, Vec::new());
        for reply in replies {
            wait += reply.wait;
            said.push(reply.said);
        }
        self.carrier.until(Instant::now() + wait).await?;
        let page = match (call.verb, said.as_slice()) {
            (Verb::Infer, [said]) => inferred(&call, said),
            (Verb::Generate | Verb::GenerateStream, [said]) => {
                let (status, text) = generated(call.model, &call.id, said);
                Page {
                    chunked: true,
                    ..Page::json(status, text)
                }
            }
            (Verb::Infer | Verb::Generate | Verb::GenerateStream, _) => one_expected(),
        };
        self.plain(page).await
    }

    /// Streams one event a response; the status is that of the first.
    async fn events(&mut self, call: &Call, replies: Replies) -> Result<Next, End> {
        let shared = self.shared;
        let mut held = shared.tally.begin(0);
        let mut replies = replies.peekable();
        let first = replies.peek();
        let status = first.map_or(200, |first| generated(call.model, &call.id, &first.said).0);
        let beats = std::iter::from_fn(|| {
            let Reply { wait, said } = replies.next()?;
            let (_, text) = generated(call.model, &call.id, &said);
            let finish = replies.peek().is_none().then_some(Finish::Stop);
            let event = Event {
                text: format!("data: {text}\n\n"),
                tokens: Some((1, finish)),
                apart: false,
            };
            Some(Beat {
                wait,
                events: vec![event],
            })
        });
        let ends = self.unknown_length();
        let content_type = "text/event-stream; charset=utf-8";
        let head = self.head_of(status, content_type, ends, Vec::new());
        let mut stream = Stream::new(
            self.carrier,
            ends,
            &self.order,
            &TRITON,
            None,
            self.shared.sigterm.subscribe(),
        );
        let end = stream.send(&head, beats, &mut held).await;
        self.events = stream.events;
        self.streamed(end)
    }
}
