//! One request and its answer, from the first byte to the last.
//!
//! In: a connection and what the engine is like. Out: an answer, or what was ordered instead, and how the connection
//! goes on. Every request that was read ends in the ledger exactly once.

use std::sync::Arc;

use rand::RngExt;

use crate::call::{Call, MAX_MODEL_LEN, Refusal, Route};
use crate::chance::generator;
use crate::engine::Shared;
use crate::events::Events;
use crate::http::{Answer, CREATED, Ends, reason};
use crate::order::{How, Instead, Order};
use crate::request::{Framing, Head, Unread, body};
use crate::seen::Ending;
use crate::settings::Settings;
use crate::story::Story;
use crate::stream::{Broke, Stream};
use crate::vllm::{self, Writer};
use crate::wire::{Gone, Wire};

/// How the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// With the next request.
    Again,
    /// It ends by FIN.
    Close,
    /// It ends by RST.
    Reset,
}

/// Answers the next request of a connection.
pub(crate) async fn exchange(wire: &mut Wire, shared: &Shared, connection: u64) -> Next {
    let head = match Head::read(wire).await {
        Ok(head) => head,
        Err(Unread::Gone) => return Next::Close,
        Err(unread @ (Unread::Bad | Unread::TooLong)) => return refuse(wire, unread).await,
    };
    let number = shared.ledger.arrived(connection, &head);
    let settings = shared.settings.borrow().clone();
    let mut exchange = Exchange {
        wire,
        shared,
        settings,
        order: Order::default(),
        head,
        number,
        turn: number,
        events: 0,
    };
    let (ending, next) = match exchange.run().await {
        Ok(next) => (
            Ending::Answered {
                events: exchange.events,
            },
            next,
        ),
        Err(End::Gone) => (
            Ending::ClientClosed {
                after_events: exchange.events,
            },
            Next::Close,
        ),
        Err(End::Broken(How::Fin)) => (
            Ending::Broken {
                after_events: exchange.events,
            },
            Next::Close,
        ),
        Err(End::Broken(How::Rst)) => (
            Ending::Broken {
                after_events: exchange.events,
            },
            Next::Reset,
        ),
        Err(End::Refused(unread)) => (Ending::Refused, refuse(exchange.wire, unread).await),
    };
    shared.ledger.ended(number, ending);
    next
}

struct Exchange<'a> {
    wire: &'a mut Wire,
    shared: &'a Shared,
    settings: Arc<Settings>,
    order: Order,
    head: Head,
    /// Among all requests.
    number: u64,
    /// Among inference requests, which all chance is drawn by; else the same as `number`.
    turn: u64,
    events: u64,
}

/// Why an exchange ended without its answer.
enum End {
    Gone,
    Broken(How),
    Refused(Unread),
}

impl From<Gone> for End {
    fn from(_: Gone) -> End {
        End::Gone
    }
}

impl From<Unread> for End {
    fn from(unread: Unread) -> End {
        match unread {
            Unread::Gone => End::Gone,
            Unread::Bad | Unread::TooLong => End::Refused(unread),
        }
    }
}

/// A whole answer, told at once.
struct Page {
    status: u16,
    content_type: &'static str,
    body: String,
    fields: Vec<String>,
}

impl Page {
    fn json(status: u16, body: String) -> Page {
        Page {
            status,
            content_type: "application/json",
            body,
            fields: Vec::new(),
        }
    }

    fn refusal(refusal: &Refusal) -> Page {
        Page::json(refusal.status, vllm::error(refusal))
    }

    /// An error with this status that no rule of the engine gave.
    fn ordered(status: u16, retry_after: Option<u32>) -> Page {
        let body = match status {
            ..400 => "{}".to_owned(),
            400.. => vllm::error(&Refusal {
                status,
                kind: "SimulatedError",
                message: format!("ordered: {status} {}", reason(status)),
                param: None,
            }),
        };
        Page {
            fields: retry_after
                .map(|seconds| format!("retry-after: {seconds}"))
                .into_iter()
                .collect(),
            ..Page::json(status, body)
        }
    }
}

impl Exchange<'_> {
    async fn run(&mut self) -> Result<Next, End> {
        let route = Some(&self.head)
            .filter(|head| head.method == "POST")
            .and_then(|head| Route::of(head.path()));
        if route.is_some() {
            self.turn = self.shared.turn();
        }
        let framing = self.head.framing()?;
        let order = match self.head.header("x-sim") {
            Some(text) => text.parse(),
            None if route.is_some() => Ok(self.settings.order(self.turn)),
            None => Ok(Order::default()),
        };
        match order {
            Ok(order) => self.order = order,
            Err(message) => {
                self.read_body(framing).await?;
                let refusal = Refusal {
                    status: 400,
                    kind: "BadRequestError",
                    message,
                    param: Some("x-sim".into()),
                };
                return self.page(Page::refusal(&refusal)).await;
            }
        }
        if let Some(Instead::Early(status)) = self.order.instead {
            self.page(Page::ordered(status, None)).await?;
            return Ok(Next::Close);
        }
        let body = self.read_body(framing).await?;
        if let Some(script) = self.shared.script(&self.head) {
            return crate::script::play(&script, self.wire)
                .await
                .map_err(|gone| match gone {
                    crate::script::Stop::Gone => End::Gone,
                    crate::script::Stop::Ended(how) => End::Broken(how),
                })
                .map(|()| self.next());
        }
        if let Some(instead) = self.order.instead {
            return self.instead(instead).await;
        }
        if let Some(status) = self.order.interim {
            let interim = format!(
                "HTTP/1.1 {status} {}\r\nlink: </engine.css>; rel=preload; as=style\r\n\r\n",
                reason(status)
            );
            self.wire.write(interim.as_bytes()).await?;
        }
        match route {
            Some(route) => match Call::read(route, &self.head, &body, &self.settings) {
                Ok(call) => self.answer(&call).await,
                Err(refusal) => self.page(Page::refusal(&refusal)).await,
            },
            None => self.page(self.side_page()).await,
        }
    }

    async fn read_body(&mut self, framing: Framing) -> Result<Vec<u8>, End> {
        if self.head.expects_continue() && framing != Framing::Length(0) {
            self.wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = body(self.wire, framing).await?;
        self.shared.ledger.read(self.number, &body);
        Ok(body)
    }

    async fn instead(&mut self, instead: Instead) -> Result<Next, End> {
        match instead {
            Instead::Reset => Err(End::Broken(How::Rst)),
            Instead::Close => Err(End::Broken(How::Fin)),
            Instead::Garbage => {
                self.wire
                    .write(b"\x16\x03\x01\x00\xffthis is not HTTP\r\n\r\n")
                    .await?;
                Err(End::Broken(How::Fin))
            }
            Instead::Hang => Err(self.wire.gone().await.into()),
            Instead::HangHead => {
                self.wire
                    .write(b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan")
                    .await?;
                Err(self.wire.gone().await.into())
            }
            Instead::Early(status)
            | Instead::Status {
                status,
                retry_after: None,
            } => self.page(Page::ordered(status, None)).await,
            Instead::Status {
                status,
                retry_after,
            } => self.page(Page::ordered(status, retry_after)).await,
            Instead::NotSse => {
                let body = "this is not an event stream\n".to_owned();
                self.page(Page {
                    status: 200,
                    content_type: "text/plain; charset=utf-8",
                    body,
                    fields: Vec::new(),
                })
                .await
            }
        }
    }

    /// Answers an inference request, streamed or whole.
    async fn answer(&mut self, call: &Call) -> Result<Next, End> {
        let shared = self.shared;
        let _running = shared.ledger.running();
        let mut held = shared.tally.begin(call.prompt_tokens());
        let story = Story::new(call, &self.settings, &self.order, self.turn);
        let mut writer = Writer::new(call, &self.settings.model, &self.id(), CREATED + self.turn);
        if call.stream {
            let events = Events::new(story, writer, self.order.comments, self.order.no_done);
            return self.stream(events, &mut held).await;
        }
        let (mut wait, mut deltas) = (std::time::Duration::ZERO, Vec::new());
        for step in story {
            wait += step.wait;
            deltas.extend(step.deltas);
        }
        self.wire.until(tokio::time::Instant::now() + wait).await?;
        for delta in &deltas {
            held.generated(delta.tokens, delta.finish);
        }
        self.page(Page::json(200, writer.plain(&deltas))).await
    }

    async fn stream(
        &mut self,
        events: Events,
        held: &mut crate::tally::Held<'_>,
    ) -> Result<Next, End> {
        let mut beats: Box<dyn Iterator<Item = _> + Send> = Box::new(events);
        let mut ends = if self.head.minor == 0 {
            Ends::Close
        } else {
            Ends::Chunked
        };
        if self.order.length {
            let told: Vec<_> = beats.collect();
            ends = Ends::Length(Events::length(&told));
            beats = Box::new(told.into_iter());
        }
        let head = self.head_of(200, "text/event-stream; charset=utf-8", ends, Vec::new());
        let mut stream = Stream::new(self.wire, ends, &self.order, self.settings.keep_alive);
        let end = stream.send(&head, beats, held).await;
        self.events = stream.events;
        match end {
            Ok(()) if ends == Ends::Close => Ok(Next::Close),
            Ok(()) => Ok(self.next()),
            Err(Broke::Gone) => Err(End::Gone),
            Err(Broke::Cut(how)) => Err(End::Broken(how)),
        }
    }

    /// What is not inference.
    fn side_page(&self) -> Page {
        let reads = self.head.method == "GET" || self.head.method == "HEAD";
        let empty = |status| Page {
            status,
            content_type: "",
            body: String::new(),
            fields: Vec::new(),
        };
        let running = || self.shared.ledger.seen().running;
        match self.head.path() {
            "/health" | "/ping" if reads => empty(if self.settings.healthy { 200 } else { 503 }),
            "/version" if reads => Page::json(200, "{\"version\":\"0.32.0\"}".into()),
            "/load" if reads => Page::json(200, format!("{{\"server_load\":{}}}", running())),
            "/v1/models" if reads => Page::json(
                200,
                vllm::models(
                    &self.settings.model,
                    &self.drawn_id(),
                    CREATED,
                    MAX_MODEL_LEN,
                ),
            ),
            "/metrics" if reads => Page {
                status: 200,
                content_type: "text/plain; version=1.0.0; charset=utf-8",
                body: self.shared.tally.page(&self.settings.model, running()),
                fields: Vec::new(),
            },
            "/health"
            | "/ping"
            | "/version"
            | "/load"
            | "/v1/models"
            | "/metrics"
            | "/v1/chat/completions"
            | "/v1/completions" => Page::json(405, "{\"detail\":\"Method Not Allowed\"}".into()),
            _ => Page::json(404, "{\"detail\":\"Not Found\"}".into()),
        }
    }

    /// Sends a whole answer.
    async fn page(&mut self, page: Page) -> Result<Next, End> {
        let ends = match page.status {
            204 | 304 => Ends::Empty,
            _ => Ends::Length(page.body.len()),
        };
        let content_type = if ends == Ends::Empty {
            ""
        } else {
            page.content_type
        };
        let mut answer = self.head_of(page.status, content_type, ends, page.fields);
        if self.head.method != "HEAD" {
            answer.extend(ends.piece(page.body.as_bytes()));
        }
        self.wire.write(&answer).await?;
        Ok(self.next())
    }

    fn head_of(
        &self,
        status: u16,
        content_type: &str,
        ends: Ends,
        mut fields: Vec<String>,
    ) -> Vec<u8> {
        if self.order.gzip {
            fields.push("content-encoding: gzip".into());
        }
        if self.settings.request_id_headers {
            fields.push(format!("x-request-id: {}", self.id()));
        }
        let early = matches!(self.order.instead, Some(Instead::Early(_)));
        Answer {
            status,
            content_type,
            ends,
            fields,
            close: early || !self.head.keeps_alive(),
        }
        .head()
    }

    fn next(&self) -> Next {
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

/// Answers what is not a request, and ends the connection.
async fn refuse(wire: &mut Wire, unread: Unread) -> Next {
    let (status, body) = match unread {
        Unread::Gone | Unread::Bad => (400, "Invalid HTTP request received."),
        Unread::TooLong => (413, "Request too large."),
    };
    let ends = Ends::Length(body.len());
    let mut answer = Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        ends,
        fields: Vec::new(),
        close: true,
    }
    .head();
    answer.extend(body.bytes());
    // The connection ends either way.
    let _ = wire.write(&answer).await;
    Next::Close
}
