//! The pump for gRPC: both ways at once.
//!
//! In: a call, as a stream of a client's HTTP/2 connection. Out: the same messages to an engine and back, each way in its
//! own time, then the answer's trailers. Neither way waits for the other: each has the writer it needs, and whoever does
//! not read holds up only those who write to it. Nothing is gathered, and nothing is sent twice; a call whose engine takes no
//! connection goes to another one.

use std::time::Duration;

use bytes::Bytes;
use greylag_filters::framing::Framing;
use greylag_filters::grpc::{self, Status};
use greylag_filters::meter::Offset;
use greylag_filters::route::Route;
use greylag_filters::split::RetryOn;
use http::{HeaderMap, header};
use pingora_http::{RequestHeader, ResponseHeader};

use super::client::{Gone, h2 as client};
use super::cut::Cut;
use super::ear::Ear;
use super::patience::{Patience, Spent};
use super::request::Request;
use super::stop::Stop;
use super::{Worker, fallback, head};
use crate::exchange::Exchange;
use crate::reply::Reason;
use crate::upstream::{Broken, Call, Reach, h2 as engine};

/// Whether a request is one of gRPC.
pub fn is_grpc(head: &RequestHeader) -> bool {
    let media_type = head.headers.get(header::CONTENT_TYPE);
    media_type.is_some_and(|value| grpc::is_media_type(value.as_bytes()))
}

/// Carries the call to its end.
pub async fn carry(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut client::Client,
    cut: &mut Cut,
    mut request: Request,
) -> Result<(), Stop> {
    let deadline = deadline(client.split().0)?;
    let mut opened = open(worker, exchange, client, cut, &request, deadline).await;
    // Nothing was sent yet, so all there is of the call can go elsewhere.
    if let Err(Stop::Broken(Broken::Unreachable(_))) = &opened
        && fallback::go_on(exchange, client.split().0, &mut request, RetryOn::Connect).is_some()
    {
        opened = open(worker, exchange, client, cut, &request, deadline).await;
    }
    let mut call = opened?;
    let out = request.head(client.split().0, exchange);
    call.write_head(&out, Framing::Chunked)?;

    let timeouts = request.timeouts;
    let total = [timeouts.total, deadline].into_iter().flatten().min();
    let is_callers = total.is_some() && total == deadline;
    let total = total.map(|total| exchange.at(total));
    let first = exchange.at(exchange.now() + timeouts.first_byte);
    let (asked, reader, writer) = client.split();
    let (up, down) = call.split();
    let body = std::mem::take(&mut request.body);
    let mut ear = Ear::of(exchange, worker.shared.longest_event());
    ear.ask(exchange.now(), &body);
    let conversation = Conversation {
        asked,
        reader,
        writer,
        up,
        down,
        worker,
        request,
        asked_at: exchange.now(),
        write: worker.shared.limits.write.get(),
        patience: Patience::new(first, Spent::FirstByte, total),
        sent: None,
        heard: None,
        to_engine: body,
        to_client: Vec::new(),
        given: 0,
    };
    let ended = conversation.hold(exchange, cut, &mut ear).await;
    ear.finish(exchange);
    ended.map_err(|stop| match stop {
        Stop::Spent(Spent::Total) if is_callers => Stop::Overdue,
        other => other,
    })
}

// The caller's own deadline, as an offset since the exchange began.
fn deadline(head: &RequestHeader) -> Result<Option<Duration>, Stop> {
    let Some(timeout) = head.headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let read = grpc::read_timeout(timeout.as_bytes());
    read.map(Some)
        .map_err(|fault| Stop::refuse(Reason::BadRequest, fault.to_string()))
}

async fn open(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut client::Client,
    cut: &mut Cut,
    request: &Request,
    deadline: Option<Duration>,
) -> Result<Box<engine::Call>, Stop> {
    exchange.record.attempts += 1;
    let before = exchange.now();
    let limit = request.timeouts.connect;
    let clock = &worker.shared.origin;
    let open = Call::open(&worker.pool, &request.target, limit, Reach::Any, clock);
    let (_, _, writer) = client.split();
    let due = deadline.map(|deadline| exchange.at(deadline));
    let overdue = async {
        match due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    };
    let opened = tokio::select! {
        biased;
        call = open => call?,
        gone = writer.gone() => return Err(Stop::left(exchange, gone)),
        () = overdue => return Err(Stop::Overdue),
        () = cut.come() => return Err(Stop::Cut),
    };
    let now = exchange.now();
    exchange.connecting += now - before;
    exchange.record.times.connected = Some(now);
    exchange.record.reused = opened.is_reused();
    match opened {
        Call::H2(call) => Ok(call),
        Call::H1(_) => Err(Stop::refuse(
            Reason::NoGrpc,
            "the engine does not speak HTTP/2",
        )),
    }
}

// Both ways of a call, and what is on each.
struct Conversation<'a> {
    asked: &'a RequestHeader,
    reader: &'a mut client::Reader,
    writer: &'a mut client::Writer,
    up: &'a mut engine::Up,
    down: &'a mut engine::Down,
    worker: &'a Worker,
    // without its body; the memory that this held is given back when it has gone
    request: Request,
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

impl Conversation<'_> {
    async fn hold(
        mut self,
        exchange: &mut Exchange,
        cut: &mut Cut,
        ear: &mut Ear,
    ) -> Result<(), Stop> {
        let (mut has_head, mut is_over) = (false, false);
        let mut said = Vec::new();
        let mut patience_of_client = Patience::new(exchange.at(exchange.now()), Spent::Idle, None);
        loop {
            let is_giving = self.given < self.to_client.len();
            if is_over && !is_giving {
                let trailers = self.down.trailers();
                note_status(exchange, trailers.as_ref());
                let finished = self.writer.finish(trailers);
                return finished.map_err(|gone| Stop::left(exchange, gone));
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
                    ear.ask(now, &piece);
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
                    is_over = self.begin(exchange, head, now);
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
        self.request.let_go();
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

    // Whether the head is all of the answer.
    fn begin(&mut self, exchange: &mut Exchange, head: Box<ResponseHeader>, now: Offset) -> bool {
        self.heard = Some(now);
        exchange.record.times.head = Some(now);
        exchange.record.engine_status = Some(head.status.as_u16());
        let is_all = self.down.is_over();
        if is_all {
            note_status(exchange, Some(&head.headers));
        }
        fallback::answered(self.worker, exchange, &self.request, head.status.as_u16());
        // How long the messages are is said by each; a length of all would be broken by a status that comes early.
        let out = head::to_client(head, self.asked, &self.request.tag, is_all);
        exchange.record.status = Some(out.status.as_u16());
        self.writer.write_head(out, is_all);
        is_all
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

// A call that failed is counted as a request that failed the same way.
fn note_status(exchange: &mut Exchange, fields: Option<&HeaderMap>) {
    let status = fields.and_then(|fields| fields.get("grpc-status"));
    let Some(status) = status.and_then(|status| Status::read(status.as_bytes())) else {
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
