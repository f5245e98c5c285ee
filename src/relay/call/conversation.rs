//! Both ways of one call, moved apart.
//!
//! In: a call whose head has been written. Out: the messages of both, until the engine has said all and the client was given
//! it; or, where the call is all in memory, the engine's word that it is too busy, which the client has not heard yet.

use std::time::Duration;

use bytes::Bytes;
use greylag_filters::grpc::Status;
use greylag_filters::meter::Offset;
use greylag_filters::route::Route;
use http::{HeaderMap, StatusCode};
use pingora_http::{RequestHeader, ResponseHeader};

use crate::exchange::Exchange;
use crate::relay::client::{Gone, h2 as client};
use crate::relay::cut::Cut;
use crate::relay::ear::Ear;
use crate::relay::patience::{Patience, Spent};
use crate::relay::request::Request;
use crate::relay::stop::Stop;
use crate::relay::{Worker, fallback, head, sequences};
use crate::upstream::{Broken, h2 as engine};

/// How a conversation ended that was not broken off.
pub enum Ended {
    /// The client was given all of it.
    Given,
    /// The engine is too busy for it. The client was given nothing.
    Busy(Box<ResponseHeader>),
}

/// Both ways of a call, and what is on each.
pub struct Conversation<'a> {
    asked: &'a RequestHeader,
    reader: &'a mut client::Reader,
    writer: &'a mut client::Writer,
    up: &'a mut engine::Up,
    down: &'a mut engine::Down,
    worker: &'a Worker,
    request: &'a mut Request,
    // how long the client may take nothing
    write: Duration,
    patience: Patience,
    // when the piece on its way to the engine was said, the client had said all, and the engine was heard last
    asked_at: Offset,
    sent: Option<Offset>,
    heard: Option<Offset>,
    // a piece on its way, each; of the second so much has been given
    to_engine: Bytes,
    to_client: Vec<u8>,
    given: usize,
}

// What happened next.
enum Next {
    // the client said a piece, or has said all
    Asked(Option<Bytes>),
    // the engine took its piece, or takes no more
    Taken(Result<(), Broken>),
    Head(Box<ResponseHeader>),
    // the engine said a piece; false: it has said all
    Said(bool),
    // the client took its piece
    Given,
    Spent(Spent),
}

impl<'a> Conversation<'a> {
    /// Between a client and an engine that was sent the head alone. `total`: when the call's time is up.
    pub fn new(
        worker: &'a Worker,
        exchange: &Exchange,
        client: &'a mut client::Client,
        call: &'a mut engine::Call,
        request: &'a mut Request,
        total: Option<Duration>,
    ) -> Self {
        let total = total.map(|total| exchange.at(total));
        let first = exchange.at(exchange.now() + request.timeouts.first_byte);
        let (asked, reader, writer) = client.split();
        let (up, down) = call.split();
        Conversation {
            asked,
            reader,
            writer,
            up,
            down,
            worker,
            to_engine: request.body.clone(),
            request,
            asked_at: exchange.now(),
            write: worker.shared.limits.write.get(),
            patience: Patience::new(first, Spent::FirstByte, total),
            sent: None,
            heard: None,
            to_client: Vec::new(),
            given: 0,
        }
    }

    /// Moves both ways until the call is over.
    pub async fn hold(
        mut self,
        exchange: &mut Exchange,
        cut: &mut Cut,
        ear: &mut Ear,
    ) -> Result<Ended, Stop> {
        let (mut has_head, mut is_over) = (false, false);
        let mut said = Vec::new();
        let mut patience_of_client = Patience::new(exchange.at(exchange.now()), Spent::Idle, None);
        loop {
            let is_giving = self.given < self.to_client.len();
            if is_over && !is_giving {
                let trailers = self.down.trailers();
                note_status(exchange, trailers.as_ref());
                let finished = self.writer.finish(trailers);
                return match finished {
                    Ok(()) => Ok(Ended::Given),
                    Err(gone) => Err(Stop::left(exchange, gone)),
                };
            }
            let next = tokio::select! {
                biased;
                given = self.writer.give(&self.to_client, &mut self.given) => {
                    given.map_err(|gone| Stop::left(exchange, gone))?;
                    Next::Given
                }
                next = listen(self.down, &mut said, has_head), if !is_giving => next?,
                next = speak(self.reader, self.up, &mut self.to_engine), if self.sent.is_none() => {
                    next.map_err(|gone| Stop::left(exchange, gone))?
                }
                spent = self.patience.spent() => Next::Spent(spent),
                _ = patience_of_client.spent(), if is_giving => {
                    return Err(Stop::left(exchange, Gone::Stalled));
                }
                () = cut.come() => return Err(Stop::Cut),
            };
            let now = exchange.now();
            match next {
                Next::Asked(Some(piece)) => {
                    self.listen_to(now, &piece, ear);
                    self.to_engine = piece;
                    self.asked_at = now;
                }
                Next::Asked(None) => {
                    // An engine that takes no more may have answered all the same, and is heard out.
                    let _ = self.up.finish();
                    self.has_sent(exchange, now);
                }
                Next::Taken(Ok(())) => {}
                Next::Taken(Err(_)) => self.has_sent(exchange, now),
                Next::Head(head) => {
                    has_head = true;
                    self.heard = Some(now);
                    self.has_answered(exchange, &head, now);
                    is_over = self.down.is_over();
                    if is_over && self.request.is_whole && is_busy(&head) {
                        return Ok(Ended::Busy(head));
                    }
                    // From here on the client has it from this engine, or not at all.
                    self.request.let_go();
                    give_head(
                        exchange,
                        self.asked,
                        self.writer,
                        self.request,
                        head,
                        is_over,
                    );
                }
                Next::Said(more) => {
                    self.heard = Some(now);
                    is_over = !more;
                    ear.answer(exchange, now, &said);
                    std::mem::swap(&mut self.to_client, &mut said);
                    self.given = 0;
                    said.clear();
                    patience_of_client.until(exchange.at(now + self.write), Spent::Idle);
                }
                Next::Given => {
                    patience_of_client.until(exchange.at(now + self.write), Spent::Idle);
                    if self.given == self.to_client.len() {
                        // While it was given nobody listened to the engine.
                        self.heard = Some(now);
                    }
                }
                Next::Spent(spent) => self.wait_on(exchange, spent, now)?,
            }
        }
    }

    fn has_sent(&mut self, exchange: &mut Exchange, now: Offset) {
        self.to_engine.clear();
        if !self.request.is_whole {
            self.request.let_go();
        }
        self.sent = Some(now);
        exchange.record.times.request = Some(now);
        // Of many requests each has a time of its own.
        if exchange.record.route != Route::ModelStreamInfer {
            exchange.record.times.written = Some(now);
        }
        // From now on the engine owes the rest.
        let (limit, spent) = self.owed();
        self.patience.until(exchange.at(now + limit), spent);
    }

    /// Lets `ear` hear what the client had said before an engine was chosen.
    pub fn listen_to_beginning(&mut self, exchange: &Exchange, ear: &mut Ear) {
        let beginning = self.to_engine.clone();
        self.listen_to(exchange.now(), &beginning, ear);
    }

    fn listen_to(&self, now: Offset, said: &[u8], ear: &mut Ear) {
        let engine = &self.request.target.name;
        ear.ask(now, said, |asked| {
            sequences::heard(self.worker, asked, engine)
        });
    }

    fn has_answered(&self, exchange: &mut Exchange, head: &ResponseHeader, now: Offset) {
        exchange.record.times.head = Some(now);
        exchange.record.engine_status = Some(head.status.as_u16());
        fallback::answered(self.worker, exchange, self.request, head.status.as_u16());
    }

    // While the client may still ask the engine owes nothing: a conversation may rest.
    fn wait_on(&mut self, exchange: &Exchange, spent: Spent, now: Offset) -> Result<(), Stop> {
        if spent == Spent::Total {
            return Err(Stop::Spent(spent));
        }
        let (limit, spent) = self.owed();
        let due = match self.sent {
            // Nobody listens to it, or it owes nothing.
            _ if self.given < self.to_client.len() => now + limit,
            None if self.to_engine.is_empty() => now + limit,
            // It does not take what is said.
            None => self.asked_at + limit,
            Some(sent) => self.heard.map_or(sent, |heard| heard.max(sent)) + limit,
        };
        if due <= now {
            return Err(Stop::Spent(spent));
        }
        self.patience.until(exchange.at(due), spent);
        Ok(())
    }

    fn owed(&self) -> (Duration, Spent) {
        match self.heard {
            Some(_) => (self.request.timeouts.idle, Spent::Idle),
            None => (self.request.timeouts.first_byte, Spent::FirstByte),
        }
    }
}

/// Gives the client the answer's head; `is_all`: there is nothing else.
pub fn give_head(
    exchange: &mut Exchange,
    asked: &RequestHeader,
    writer: &mut client::Writer,
    request: &Request,
    head: Box<ResponseHeader>,
    is_all: bool,
) {
    if is_all {
        note_status(exchange, Some(&head.headers));
    }
    // How long the messages are is said by each; a length of all would be broken by a status that comes early.
    let out = head::to_client(head, asked, &request.tag, is_all);
    exchange.record.status = Some(out.status.as_u16());
    writer.write_head(out, is_all);
}

// Whether an answer that is a head alone says what 503 says (grpc's UNAVAILABLE).
fn is_busy(head: &ResponseHeader) -> bool {
    status(&head.headers).map_or(head.status == StatusCode::SERVICE_UNAVAILABLE, |status| {
        status == Status::Unavailable
    })
}

fn status(fields: &HeaderMap) -> Option<Status> {
    Status::read(fields.get("grpc-status")?.as_bytes())
}

// A call that failed is counted as a request that failed the same way.
fn note_status(exchange: &mut Exchange, fields: Option<&HeaderMap>) {
    let Some(status) = fields.and_then(status) else {
        return;
    };
    exchange.record.grpc_status = Some(status);
    if status != Status::Ok {
        exchange.record.engine_status = Some(status.http());
    }
}

// Moves the client's side one step: its next piece, or a piece into the engine. Cancel-safe.
async fn speak(
    reader: &mut client::Reader,
    up: &mut engine::Up,
    piece: &mut Bytes,
) -> Result<Next, Gone> {
    if piece.is_empty() {
        reader.piece().await.map(Next::Asked)
    } else {
        Ok(Next::Taken(up.write(piece).await))
    }
}

// Moves the engine's side one step. Cancel-safe.
async fn listen(
    down: &mut engine::Down,
    piece: &mut Vec<u8>,
    has_head: bool,
) -> Result<Next, Broken> {
    if has_head {
        down.read(piece).await.map(Next::Said)
    } else {
        down.read_head().await.map(Next::Head)
    }
}
