//! The pump for gRPC: both ways at once.
//!
//! In: a call, as a stream of a client's HTTP/2 connection. Out: the same messages to an engine and back, each way in its
//! own time, then the answer's trailers. Neither way waits for the other: each has the writer it needs, and whoever does
//! not read holds up only those who write to it. A call of one message is in memory and may be tried again; of others
//! nothing is gathered, and they go to another engine only if their own takes no connection.

mod conversation;

use std::time::Duration;

use greylag_filters::framing::Framing;
use greylag_filters::grpc;
use greylag_filters::split::RetryOn;
use http::header;
use pingora_http::RequestHeader;

use super::attempts::{self, Attempts, Failed};
use super::client::h2 as client;
use super::cut::Cut;
use super::ear::Ear;
use super::patience::Spent;
use super::request::Request;
use super::stop::Stop;
use super::{Worker, fallback};
use crate::exchange::Exchange;
use crate::reply::Reason;
use crate::upstream::{Call, Reach, h2 as engine};
use conversation::{Conversation, Ended, give_head};

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
    request: Request,
) -> Result<(), Stop> {
    let deadline = deadline(client.split().0)?;
    let mut attempt = Attempt {
        worker,
        exchange,
        client,
        cut,
        request,
        deadline,
    };
    let Ended::Busy(head) = attempts::carry(&mut attempt).await? else {
        return Ok(());
    };
    let (asked, _, writer) = attempt.client.split();
    give_head(
        attempt.exchange,
        asked,
        writer,
        &attempt.request,
        head,
        true,
    );
    Ok(())
}

/// The caller's own deadline, as an offset since the exchange began.
///
/// # Errors
/// It cannot be read.
pub fn deadline(head: &RequestHeader) -> Result<Option<Duration>, Stop> {
    let Some(timeout) = head.headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let read = grpc::read_timeout(timeout.as_bytes());
    read.map(Some)
        .map_err(|fault| Stop::refuse(Reason::BadRequest, fault.to_string()))
}

struct Attempt<'a> {
    worker: &'a Worker,
    exchange: &'a mut Exchange,
    client: &'a mut client::Client,
    cut: &'a mut Cut,
    request: Request,
    deadline: Option<Duration>,
}

impl Attempts for Attempt<'_> {
    type Answered = Ended;

    async fn make(&mut self, fresh: bool) -> Result<Ended, Failed> {
        self.exchange.record.attempts += 1;
        let mut call = self.open(fresh).await?;
        match self.converse(&mut call).await {
            Ok(ended) => Ok(ended),
            Err(stop) => Err(Failed {
                stop,
                untouched: self.exchange.record.status.is_none()
                    && attempts::is_untouched(call.untouched(), self.exchange),
            }),
        }
    }

    fn request(&self) -> &Request {
        &self.request
    }

    fn is_busy(&self, ended: &Ended) -> bool {
        matches!(ended, Ended::Busy(_))
    }

    fn goes_on(&mut self, failure: RetryOn) -> Option<Request> {
        let head = self.client.split().0;
        fallback::go_on(self.exchange, head, &mut self.request, failure)
    }

    fn goes_back(&mut self, was: Request) {
        fallback::go_back(self.exchange, &mut self.request, was);
    }
}

impl Attempt<'_> {
    async fn open(&mut self, fresh: bool) -> Result<Box<engine::Call>, Stop> {
        let before = self.exchange.now();
        let reach = if fresh { Reach::Fresh } else { Reach::Any };
        let open = self.request.open(self.worker, reach);
        let (_, _, writer) = self.client.split();
        let due = self.deadline.map(|deadline| self.exchange.at(deadline));
        let overdue = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let opened = tokio::select! {
            biased;
            call = open => call?,
            gone = writer.gone() => return Err(Stop::left(self.exchange, gone)),
            () = overdue => return Err(Stop::Overdue),
            () = self.cut.come() => return Err(Stop::Cut),
        };
        let now = self.exchange.now();
        self.exchange.connecting += now - before;
        self.exchange.record.times.connected = Some(now);
        self.exchange.record.reused = opened.is_reused();
        match opened {
            Call::H2(call) => Ok(call),
            Call::H1(_) => Err(Stop::refuse(
                Reason::NoGrpc,
                "the engine does not speak HTTP/2",
            )),
        }
    }

    async fn converse(&mut self, call: &mut engine::Call) -> Result<Ended, Stop> {
        let Attempt {
            worker,
            exchange,
            client,
            cut,
            request,
            deadline,
        } = self;
        let out = request.head(client.split().0, exchange);
        call.write_head(&out, Framing::Chunked)?;
        let total = [request.timeouts.total, *deadline]
            .into_iter()
            .flatten()
            .min();
        let is_callers = total.is_some() && total == *deadline;
        let mut ear = Ear::of(exchange, worker.shared.longest_event());
        let mut conversation = Conversation::new(worker, exchange, client, call, request, total);
        conversation.listen_to_beginning(exchange, &mut ear);
        let ended = conversation.hold(exchange, cut, &mut ear).await;
        ear.finish(exchange);
        ended.map_err(|stop| match stop {
            Stop::Spent(Spent::Total) if is_callers => Stop::Overdue,
            other => other,
        })
    }
}
