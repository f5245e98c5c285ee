//! What listens to a call of gRPC as it passes.
//!
//! In: the bytes of both ways, each with the time it was read. Out: figures, and the gaps between token events as they
//! come. It only looks on.

use greylag_filters::grpc::Splitter;
use greylag_filters::meter::{
    Dialect, Figures, Heard, InSequence, InferStream, Meter, Metered, Offset, Unmetered,
};
use greylag_filters::route::Route;

use crate::exchange::Exchange;
use crate::record::Requests;
use crate::telemetry::Gaps;

/// So many requests of one call are metered while they are open.
const MOST_OPEN: usize = 256;

/// What listens.
pub enum Ear {
    /// Nothing: it is no inference.
    Deaf,
    /// A call of one message and one answer.
    One(Box<Meter>),
    /// A call of many.
    Many(Box<Many>),
}

/// Both ways of a call with many requests.
pub struct Many {
    asked: Splitter,
    answered: Splitter,
    stream: InferStream,
    gaps: Gaps,
    requests: Requests,
    figures: Figures,
}

impl Ear {
    /// What listens to this exchange; `limit`: the longest message that is read, in bytes.
    pub fn of(exchange: &Exchange, limit: usize) -> Ear {
        match exchange.record.route {
            Route::ModelInfer => Ear::One(Box::new(Meter::whole(Dialect::ModelInfer, true, limit))),
            Route::ModelStreamInfer => Ear::Many(Box::new(Many {
                asked: Splitter::new(limit),
                answered: Splitter::new(limit),
                stream: InferStream::new(MOST_OPEN),
                gaps: exchange.telemetry().gaps(&exchange.record),
                requests: Requests::default(),
                figures: Figures {
                    ends_with_body: true,
                    ..Figures::default()
                },
            })),
            _ => Ear::Deaf,
        }
    }

    /// Hears bytes of the request; `each` is told of requests that belong to a sequence.
    pub fn ask(&mut self, at: Offset, bytes: &[u8], mut each: impl FnMut(&InSequence)) {
        let Ear::Many(many) = self else { return };
        let Many { asked, stream, .. } = &mut **many;
        let before = asked.skipped();
        asked.feed(bytes, |message| {
            if let Some(asked) = stream.request(at, message) {
                each(&asked);
            }
        });
        for _ in before..asked.skipped() {
            stream.skipped_request();
        }
    }

    /// Hears bytes of the answer.
    pub fn answer(&mut self, exchange: &mut Exchange, at: Offset, bytes: &[u8]) {
        match self {
            Ear::Deaf => {}
            Ear::One(meter) => {
                meter.feed(at, bytes);
            }
            Ear::Many(many) => many.answer(exchange, at, bytes),
        }
    }

    /// Leaves what it knows in the record.
    pub fn finish(self, exchange: &mut Exchange) {
        match self {
            Ear::Deaf => {}
            Ear::One(meter) => exchange.record.figures = Some(meter.finish()),
            Ear::Many(many) => many.finish(exchange),
        }
    }
}

impl Many {
    fn answer(&mut self, exchange: &mut Exchange, at: Offset, bytes: &[u8]) {
        let Many {
            answered,
            stream,
            gaps,
            requests,
            figures,
            ..
        } = self;
        let before = answered.skipped();
        answered.feed(bytes, |message| {
            let Heard { fed, finished } = stream.answer(at, message);
            if fed.token_events > 0 {
                exchange.record.timeline.note(at, fed.token_events);
                gaps.note(fed.token_events, fed.gap);
            }
            if let Some(metered) = finished {
                over(exchange, requests, figures, metered);
            }
        });
        for _ in before..answered.skipped() {
            stream.skipped_answer(Unmetered::EventTooLong);
        }
    }

    fn finish(self, exchange: &mut Exchange) {
        let Many {
            stream,
            mut requests,
            mut figures,
            ..
        } = self;
        let (open, tally) = stream.finish();
        for metered in open {
            over(exchange, &mut requests, &mut figures, metered);
        }
        requests.tally = tally;
        exchange.record.figures = Some(figures);
        exchange.record.requests = Some(Box::new(requests));
    }
}

// Adds a request that is over to those of its call.
fn over(exchange: &Exchange, requests: &mut Requests, all: &mut Figures, metered: Metered) {
    exchange.telemetry().request(&exchange.record, &metered);
    let one = &metered.figures;
    let earlier = |a: Option<Offset>, b: Option<Offset>| [a, b].into_iter().flatten().min();
    all.first_token = earlier(all.first_token, one.first_token);
    all.first_output = earlier(all.first_output, one.first_output);
    all.last_token = all.last_token.max(one.last_token);
    all.token_events += one.token_events;
    all.events += one.events;
    all.bad_events += one.bad_events;
    if all.error.is_none() {
        all.error.clone_from(&one.error);
    }
    if all.model.is_none() {
        all.model.clone_from(&one.model);
    }
    all.unmetered = all.unmetered.or(one.unmetered);
    requests.push(metered);
}
