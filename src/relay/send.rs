//! The request's way to the engine, up to the head of the answer.
//!
//! In: a request. Out: an open call whose answer has begun. What is in memory is sent and the client watched meanwhile; what
//! is not is read from the client as the engine takes it.

use std::time::Duration;

use greylag_filters::split::RetryOn;
use http::StatusCode;
use pingora_http::ResponseHeader;

use super::Worker;
use super::attempts::{self, Attempts, Failed};
use super::client::{BODY_PAUSE, Client};
use super::cut::Cut;
use super::fallback;
use super::head;
use super::patience::{Patience, Spent};
use super::request::Request;
use super::stop::Stop;
use crate::exchange::Exchange;
use crate::upstream::{Broken, Call, Reach};

/// A request that an engine has begun to answer.
pub struct Sent {
    /// The engine's end of it.
    pub call: Call,
    /// The answer's head.
    pub head: Box<ResponseHeader>,
    /// What was sent.
    pub request: Request,
    /// Whether the request went out to its end; else the connection cannot carry another.
    pub is_complete: bool,
    /// The timer of the exchange.
    pub patience: Patience,
}

/// Sends the request, more than once if it must.
pub async fn send(
    worker: &Worker,
    exchange: &mut Exchange,
    client: &mut Client,
    cut: &mut Cut,
    request: Request,
) -> Result<Sent, Stop> {
    let patience = patience(exchange, &request);
    let mut attempt = Attempt {
        worker,
        exchange,
        client,
        cut,
        request,
        patience,
    };
    let (call, Answered { head, is_complete }) = attempts::carry(&mut attempt).await?;
    let Attempt {
        mut request,
        patience,
        ..
    } = attempt;
    request.let_go();
    Ok(Sent {
        call,
        head,
        request,
        is_complete,
        patience,
    })
}

// From now on the request's engine owes an answer.
fn patience(exchange: &Exchange, request: &Request) -> Patience {
    let timeouts = &request.timeouts;
    let total = timeouts.total.map(|total| exchange.at(total));
    let due = exchange.at(exchange.now() + timeouts.first_byte);
    Patience::new(due, Spent::FirstByte, total)
}

struct Attempt<'a> {
    worker: &'a Worker,
    exchange: &'a mut Exchange,
    client: &'a mut Client,
    cut: &'a mut Cut,
    request: Request,
    patience: Patience,
}

// The answer's head, and whether the whole request had gone out by then.
struct Answered {
    head: Box<ResponseHeader>,
    is_complete: bool,
}

impl Attempts for Attempt<'_> {
    type Answered = (Call, Answered);

    async fn make(&mut self, fresh: bool) -> Result<Self::Answered, Failed> {
        self.exchange.record.attempts += 1;
        let mut call = self.open(fresh).await?;
        self.exchange.record.reused = call.is_reused();
        match self.talk(&mut call).await {
            Ok(answered) => {
                let status = answered.head.status.as_u16();
                fallback::answered(self.worker, self.exchange, &self.request, status);
                Ok((call, answered))
            }
            Err(stop) => Err(Failed {
                stop,
                untouched: attempts::is_untouched(call.untouched(), self.exchange),
            }),
        }
    }

    fn request(&self) -> &Request {
        &self.request
    }

    // What has been read of the client's body and sent cannot be sent again.
    fn is_busy(&self, (_, answered): &Self::Answered) -> bool {
        answered.head.status == StatusCode::SERVICE_UNAVAILABLE && self.request.is_whole
    }

    fn goes_on(&mut self, failure: RetryOn) -> Option<Request> {
        let head = self.client.head();
        let was = fallback::go_on(self.exchange, head, &mut self.request, failure)?;
        self.patience = patience(self.exchange, &self.request);
        Some(was)
    }

    fn goes_back(&mut self, was: Request) {
        fallback::go_back(self.exchange, &mut self.request, was);
        self.patience = patience(self.exchange, &self.request);
    }
}

impl Attempt<'_> {
    async fn open(&mut self, fresh: bool) -> Result<Call, Stop> {
        let before = self.exchange.now();
        let is_whole = self.request.is_whole;
        let reach = match (self.request.is_upgrade, fresh) {
            (true, _) => Reach::Http1,
            (false, true) => Reach::Fresh,
            (false, false) if is_whole => Reach::Any,
            (false, false) => Reach::Certain,
        };
        let open = self.request.open(self.worker, reach);
        let opened = if is_whole {
            tokio::select! {
                biased;
                call = open => call.map_err(Stop::from),
                gone = self.client.gone() => Err(Stop::left(self.exchange, gone)),
                spent = self.patience.spent() => Err(Stop::Spent(spent)),
                () = self.cut.come() => Err(Stop::Cut),
            }
        } else {
            // The client is watched by reading its body, which there is nowhere to put yet; `connect` bounds this wait.
            tokio::select! {
                biased;
                call = open => call.map_err(Stop::from),
                () = self.cut.come() => Err(Stop::Cut),
            }
        };
        let now = self.exchange.now();
        self.exchange.connecting += now - before;
        self.exchange.record.times.connected = Some(now);
        opened
    }

    async fn talk(&mut self, call: &mut Call) -> Result<Answered, Stop> {
        if self.request.is_whole {
            self.talk_whole(call).await
        } else {
            self.talk_streamed(call).await
        }
    }

    async fn talk_whole(&mut self, call: &mut Call) -> Result<Answered, Stop> {
        self.write_head(call)?;
        let write = async {
            call.write(&self.request.body).await?;
            call.finish()
        };
        let written = tokio::select! {
            biased;
            written = write => written,
            gone = self.client.gone() => return Err(Stop::left(self.exchange, gone)),
            spent = self.patience.spent() => return Err(Stop::Spent(spent)),
            () = self.cut.come() => return Err(Stop::Cut),
        };
        self.written();
        // An engine that refuses a body may have answered before it closed; what it said is worth more than how it
        // closed. If it said nothing, the write's error stands.
        match (self.await_head(call).await, written) {
            (Ok(head), written) => Ok(Answered {
                head,
                is_complete: written.is_ok(),
            }),
            (Err(Stop::Broken(_)), Err(broken)) => Err(broken.into()),
            (Err(stop), _) => Err(stop),
        }
    }

    // Since the client's body is being read, its leaving shows there; the engine may answer before it has all.
    async fn talk_streamed(&mut self, call: &mut Call) -> Result<Answered, Stop> {
        self.write_head(call)?;
        let mut piece = Some(std::mem::take(&mut self.request.body));
        while let Some(bytes) = piece {
            self.due_in(self.request.timeouts.first_byte);
            let write = call.write(&bytes);
            let written = tokio::select! {
                biased;
                written = write => written,
                spent = self.patience.spent() => return Err(Stop::Spent(spent)),
                () = self.cut.come() => return Err(Stop::Cut),
            };
            if let Err(broken) = written {
                return match self.await_head(call).await {
                    Ok(head) => Ok(Answered {
                        head,
                        is_complete: false,
                    }),
                    Err(Stop::Broken(_)) => Err(broken.into()),
                    Err(stop) => Err(stop),
                };
            }
            // The engine owes nothing before it has all: what is waited for is the client, whose pauses are bounded.
            self.due_in(2 * BODY_PAUSE);
            piece = loop {
                tokio::select! {
                    biased;
                    head = call.read_head() => {
                        if let Some(head) = self.unless_interim(head?)? {
                            return Ok(Answered { head, is_complete: false });
                        }
                    }
                    piece = self.client.read_body() => {
                        break piece.map_err(|lost| Stop::lost(self.exchange, lost))?;
                    }
                    spent = self.patience.spent() => return Err(Stop::Spent(spent)),
                    () = self.cut.come() => return Err(Stop::Cut),
                }
            };
        }
        call.finish()?;
        self.exchange.record.times.request = Some(self.exchange.now());
        self.written();
        let head = self.await_head(call).await?;
        Ok(Answered {
            head,
            is_complete: true,
        })
    }

    fn write_head(&self, call: &mut Call) -> Result<(), Broken> {
        let head = self.request.head(self.client.head(), self.exchange);
        call.write_head(&head, self.request.framing)
    }

    fn written(&mut self) {
        self.exchange.record.times.written = Some(self.exchange.now());
        self.due_in(self.request.timeouts.first_byte);
    }

    fn due_in(&mut self, time: Duration) {
        let due = self.exchange.at(self.exchange.now() + time);
        self.patience.until(due, Spent::FirstByte);
    }

    async fn await_head(&mut self, call: &mut Call) -> Result<Box<ResponseHeader>, Stop> {
        let watch_client = self.client.is_body_read();
        loop {
            let head = tokio::select! {
                biased;
                head = call.read_head() => head?,
                gone = self.client.gone(), if watch_client => return Err(Stop::left(self.exchange, gone)),
                spent = self.patience.spent() => return Err(Stop::Spent(spent)),
                () = self.cut.come() => return Err(Stop::Cut),
            };
            if let Some(head) = self.unless_interim(head)? {
                return Ok(head);
            }
        }
    }

    // The head, unless it is an interim one, which the client is sent if it can have it.
    fn unless_interim(
        &mut self,
        head: Box<ResponseHeader>,
    ) -> Result<Option<Box<ResponseHeader>>, Stop> {
        if !head.status.is_informational() {
            return Ok(Some(head));
        }
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            // Who was not asked to switch cannot be followed.
            return match self.request.is_upgrade {
                true => Ok(Some(head)),
                false => Err(Broken::Garbage.into()),
            };
        }
        if let Some(interim) = head::interim(head, self.client.head()) {
            self.client.write_interim(&interim);
        }
        Ok(None)
    }
}
