//! The request as the chosen engine gets it.
//!
//! In: the caller's head and body, and the rules. Out: the engine, a head and a body for it, and what must be undone in
//! its answer. Facts are read from the body once; the body is edited by splicing, and only where a rule asks for it.

use std::sync::Arc;

use bytes::Bytes;
use greylag_filters::facts;
use greylag_filters::framing::Framing;
use greylag_filters::grpc;
use greylag_filters::json;
use greylag_filters::meter::{Unmetered, Wanted};
use greylag_filters::route::{self, Route};
use greylag_filters::rules::engine::{Engine, Host, Pool, Timeouts};
use greylag_filters::rules::{Decision, EngineId, How, Request as Asked};
use greylag_filters::triton;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use pingora_http::RequestHeader;

use super::body::Body;
use super::edits::Edits;
use super::head::{self, Marks};
use super::sequences::Sequence;
use super::stop::Stop;
use super::{Worker, call, fallback, sequences};
use crate::budget::BudgetShare;
use crate::exchange::Exchange;
use crate::record::bounded;
use crate::reply::Reason;
use crate::upstream::{ApiKey, Broken, Call, Limits, Reach, Target, UnderWay};

/// A request, ready to be sent.
pub struct Request {
    /// The engine that gets it.
    pub engine: EngineId,
    /// Where it goes.
    pub target: Arc<Target>,
    /// The engine whose place this one takes.
    pub replaces: Option<Arc<Target>>,
    /// What a request for another engine would be made of, unless this one is the second.
    pub draft: Option<Box<Draft>>,
    /// The sequence that it belongs to.
    pub sequence: Option<Sequence>,
    /// Whether it is a call of gRPC.
    pub is_grpc: bool,
    /// Whether it asks to switch to WebSocket.
    pub is_upgrade: bool,
    /// How long the engine is waited for.
    pub timeouts: Timeouts,
    // what may be open to the engine
    pool: Pool,
    // its place among the requests that the engine has, once it has one
    under_way: Option<UnderWay>,
    /// What the exchange is called: the engine's tag, unless the rules leave that open.
    pub tag: Arc<str>,
    /// The engine's own `Host`, unless the caller's is kept.
    host: Option<String>,
    // how much of the edited body is JSON, where the head says that
    json_length: Option<usize>,
    /// How its body is framed: by nothing, a length or chunks.
    pub framing: Framing,
    /// Its body, or the beginning of it.
    pub body: Bytes,
    /// Whether `body` is all of it.
    pub is_whole: bool,
    /// Whether the usage event in the answer was asked for by us, and must be taken out.
    pub strips_usage: bool,
    /// Whether the caller asked for one choice, so that a time per output token has a meaning.
    pub one_choice: bool,
    /// So many choices of a chat repeat the last message first.
    pub echoes: u64,
    /// What is to be judged of the answer.
    pub checks: Wanted,
    // fields that the caller is not believed, and that others must not believe of us
    claims: Vec<HeaderName>,
    // how many Greylags have passed it on, with this one
    hop: u8,
    // who has passed it on, where the engine is told
    forwarded: Option<(HeaderName, Vec<u8>)>,
    // what the engine's rules set on the head
    fields: Vec<(HeaderName, HeaderValue)>,
    // the memory that `body` holds, given back with it
    share: Option<BudgetShare>,
}

/// What is known of a request, whichever engine gets it.
pub struct Draft {
    /// What the rules decided, whoever is up.
    pub decision: Decision,
    bytes: Bytes,
    is_whole: bool,
    read: Option<Facts>,
    is_grpc: bool,
    sequence: Option<Sequence>,
    // what the exchange is called, where that is not the engine's tag
    named: Option<Arc<str>>,
    claims: Vec<HeaderName>,
    hop: u8,
    forwarded: Option<(HeaderName, Vec<u8>)>,
}

impl Request {
    /// Its head, made of the caller's anew for each attempt.
    pub fn head(&self, caller: &RequestHeader, exchange: &Exchange) -> Box<RequestHeader> {
        let is_traced = exchange.snapshot.rules.written().trace.inject;
        let trace = exchange.record.trace.as_ref().filter(|_| is_traced);
        let marks = Marks {
            tag: &self.tag,
            trace,
            host: self.host.as_deref(),
            claims: &self.claims,
            hop: self.hop,
            forwarded: self.forwarded.as_ref(),
            identity: self.strips_usage,
            framing: self.framing,
            json_length: self.json_length,
            is_upgrade: self.is_upgrade,
        };
        let mut head = head::to_engine(caller, &marks);
        for (name, value) in &self.fields {
            // They are valid already.
            let _ = head.insert_header(name, value);
        }
        head
    }

    /// Opens a call to its engine, as one of the requests that it may have at a time.
    ///
    /// # Errors
    /// It has as many already, or there is no connection to be had.
    pub async fn open(&mut self, worker: &Worker, reach: Reach) -> Result<Call, Broken> {
        if self.under_way.is_none() {
            self.under_way = Some(self.begin()?);
        }
        let limits = Limits {
            connect: self.timeouts.connect,
            pool: self.pool,
        };
        let clock = &worker.shared.origin;
        Call::open(&worker.pool, &self.target, limits, reach, clock).await
    }

    fn begin(&self) -> Result<UnderWay, Broken> {
        let begun = self.target.begin(self.pool.requests);
        begun.ok_or_else(|| {
            let most = self.pool.requests.unwrap_or_default();
            let name = &self.target.name;
            Broken::Full(format!(
                "{name} has {most} requests under way, as many as its pool.requests allows"
            ))
        })
    }

    /// Takes over what bounds the memory of another request for the same body.
    pub fn keep_memory_of(&mut self, other: &mut Request) {
        self.share = other.share.take();
    }

    /// Lets go of the body, once it will not be sent again: an answer may run for minutes.
    pub fn let_go(&mut self) {
        self.body = Bytes::new();
        self.draft = None;
        self.share = None;
    }
}

/// Reads the facts, chooses the engine, edits.
pub async fn plan(
    worker: &Worker,
    exchange: &mut Exchange,
    head: &RequestHeader,
    body: Body,
) -> Result<Request, Stop> {
    let (bytes, is_whole, share) = match body {
        Body::Whole(bytes, share) => (bytes, true, share),
        Body::Streamed(bytes, share) => (bytes, false, share),
    };
    let read = read_facts(exchange, head, &bytes, is_whole).await;
    let facts = read.as_ref().and_then(|read| read.as_ref().ok());
    note_facts(exchange, facts);
    let snapshot = exchange.snapshot.clone();
    let caller = exchange.caller;
    let mut decision = snapshot.rules.decide(
        &Asked {
            method: &head.method,
            path: head.uri.path(),
            route: exchange.record.route,
            headers: &head.headers,
            body: facts,
            client: caller.client,
            trusted: caller.is_trusted,
        },
        |split| snapshot.force_is_on(split),
        exchange.seed(),
        exchange.record.id.as_bytes(),
    );
    let sequence = Sequence::of(facts);
    sequences::follow(worker, exchange, sequence.as_ref(), &mut decision);
    let open = snapshot.rules.leaves_tag_open(&decision);
    let said = || caller.tag(&head.headers);
    let named = open.then(|| worker.shared.identity.tag(said().as_ref()));
    let named = named.flatten();
    exchange.record.traffic = decision.traffic;
    let is_grpc = call::is_grpc(head);
    fallback::note(exchange, decision.engine, decision.how, named.as_ref());
    let choice = fallback::choose(worker, exchange, &decision, is_grpc)?;
    fallback::note(exchange, choice.engine, choice.how, named.as_ref());
    let split = decision.split;
    exchange.record.split = split.and_then(|split| snapshot.decided(split, choice.engine));
    let draft = Box::new(Draft {
        decision,
        bytes,
        is_whole,
        read,
        is_grpc,
        sequence,
        named,
        claims: caller.claims(&snapshot.rules, &head.headers),
        hop: caller.next_hop(),
        forwarded: caller.forwarded(worker.shared.forwarded, &head.headers),
    });
    let mut request = draft.request(exchange, head, choice.engine)?;
    request.replaces = choice.replaces;
    request.share = Some(share);
    // What no split has decided goes nowhere else, nor does what goes on where it was begun.
    let may_move = decision.split.is_some() && decision.how != How::Sequence;
    request.draft = may_move.then_some(draft);
    Ok(request)
}

impl Draft {
    /// The request as this engine gets it.
    ///
    /// # Errors
    /// The engine has no gRPC, or what its rules want done cannot be done.
    pub fn request(
        &self,
        exchange: &Exchange,
        head: &RequestHeader,
        id: EngineId,
    ) -> Result<Request, Stop> {
        let snapshot = &exchange.snapshot;
        let engine = &snapshot.rules.engines()[id.index()];
        let target = if self.is_grpc {
            let target = snapshot.grpc_target(id);
            target.ok_or_else(|| no_grpc(&engine.name))?
        } else {
            snapshot.target(id)
        };
        let (bytes, read) = (&self.bytes, self.read.as_ref());
        let facts = read.and_then(|read| read.as_ref().ok());
        let edits = Edits::of(engine, exchange, facts);
        let edited = edits.apply(bytes, read, self.is_whole)?;
        // What was added to or taken off the JSON before the tensors.
        let json_length = match (json_length(&head.headers), &edited) {
            (Some(length), Some(edited)) => {
                Some((length + edited.len()).saturating_sub(bytes.len()))
            }
            _ => None,
        };
        let body = edited.map_or_else(|| bytes.clone(), Bytes::from);
        let framing = framing(head, &body, self.is_whole);
        Ok(Request {
            engine: id,
            target: target.clone(),
            replaces: None,
            draft: None,
            sequence: self.sequence.clone(),
            is_grpc: self.is_grpc,
            is_upgrade: head::asks_for_websocket(head),
            timeouts: engine.timeouts,
            pool: engine.pool,
            under_way: None,
            tag: self.named.clone().unwrap_or_else(|| engine.tag.clone()),
            host: match engine.host {
                Host::Keep => None,
                Host::Engine => Some(engine.address.authority()),
            },
            framing,
            json_length,
            claims: self.claims.clone(),
            hop: self.hop,
            forwarded: self.forwarded.clone(),
            fields: fields(engine, snapshot.api_key(id).map(|key| &**key))?,
            body,
            is_whole: self.is_whole,
            strips_usage: edits.usage,
            one_choice: facts.is_none_or(|facts| facts.n.unwrap_or(1) == 1),
            echoes: facts
                .filter(|facts| facts.echoes)
                .map_or(0, |facts| facts.n.unwrap_or(1)),
            checks: facts.map_or(Wanted::default(), |facts| Wanted {
                json: facts.wants_json,
                tools: facts.has_tools,
            }),
            share: None,
        })
    }
}

// What the engine's rules set on the head.
fn fields(engine: &Engine, key: Option<&ApiKey>) -> Result<Vec<(HeaderName, HeaderValue)>, Stop> {
    let mut fields = engine.headers.clone();
    if let Some(key) = key {
        let value = key.value().map_err(|_| {
            let what = format!("the API key of engine {} cannot be read", engine.name);
            Stop::refuse(Reason::NoApiKey, what)
        })?;
        fields.push((header::AUTHORIZATION, value));
    }
    Ok(fields)
}

fn no_grpc(engine: &str) -> Stop {
    Stop::refuse(
        Reason::NoGrpc,
        format!("this is a call of gRPC, and the engine {engine} has no `grpc` address"),
    )
}

/// What was read of a body, or why it could not be.
pub type Facts = Result<facts::Body, json::Fault>;

// Nothing is known of a body that is encoded, not whole, or not there.
async fn read_facts(
    exchange: &Exchange,
    head: &RequestHeader,
    body: &Bytes,
    is_whole: bool,
) -> Option<Facts> {
    let route = exchange.record.route;
    if !route.is_inference() || head.method != Method::POST {
        return None;
    }
    let wanted = exchange.snapshot.rules.wanted_body_keys();
    if route == Route::ModelStreamInfer {
        // What its requests say is heard as they pass; the first says where it goes.
        return first_message(body, wanted)?.ok().map(Ok);
    }
    if head.headers.contains_key(header::CONTENT_ENCODING) {
        exchange.telemetry().unmetered(Unmetered::RequestEncoded);
        return None;
    }
    if !is_whole {
        exchange.telemetry().unmetered(Unmetered::RequestTooLarge);
        return None;
    }
    let is_triton = match route {
        Route::ModelInfer => return message_facts(exchange, body, wanted).map(Ok),
        Route::TritonInfer | Route::TritonGenerate | Route::TritonGenerateStream => true,
        _ => false,
    };
    let model = route::model(head.uri.path()).map(Box::<str>::from);
    let length = json_length(&head.headers);
    let (snapshot, body) = (exchange.snapshot.clone(), body.clone());
    let size = body.len();
    let scan = move || {
        let wanted = snapshot.rules.wanted_body_keys();
        match is_triton {
            true => facts::triton::scan(model.as_deref(), length, &body, wanted),
            false => facts::scan(&body, wanted),
        }
    };
    if size < LONG {
        return Some(scan());
    }
    match tokio::task::spawn_blocking(scan).await {
        Ok(read) => Some(read),
        // A panic there is one here. What was never begun is so only when all ends.
        Err(error) => error
            .try_into_panic()
            .map_or(None, |panic| std::panic::resume_unwind(panic)),
    }
}

/// Bodies of so many bytes are read by another thread: reading one takes milliseconds, in which this one moves other streams'
/// tokens.
const LONG: usize = 1 << 20;

// A call's one message; it is never edited, so what is wrong with it is its engine's to say.
fn message_facts(exchange: &Exchange, body: &[u8], wanted: &[Box<str>]) -> Option<facts::Body> {
    match first_message(body, wanted)? {
        Ok(facts) => Some(facts),
        Err(why) => {
            exchange.telemetry().unmetered(why);
            None
        }
    }
}

// What the first message in a body says, or why that is not known.
fn first_message(body: &[u8], wanted: &[Box<str>]) -> Option<Result<facts::Body, Unmetered>> {
    let (mut found, mut is_first) = (None, true);
    grpc::Splitter::new(body.len()).feed(body, |message| {
        if std::mem::take(&mut is_first) {
            found = match message.compressed {
                true => Some(Err(Unmetered::RequestEncoded)),
                false => facts::triton::message(message.bytes, wanted).ok().map(Ok),
            };
        }
    });
    found
}

fn json_length(headers: &HeaderMap) -> Option<usize> {
    triton::json_length(headers.get(triton::JSON_LENGTH)?.as_bytes())
}

fn note_facts(exchange: &mut Exchange, facts: Option<&facts::Body>) {
    let Some(facts) = facts else { return };
    exchange.record.model = facts.model.as_deref().map(bounded);
    exchange.record.stream = facts.stream;
    // Tensors are no prompt that can be measured.
    let is_tensors = matches!(
        exchange.record.route,
        Route::TritonInfer | Route::ModelInfer | Route::ModelStreamInfer
    );
    exchange.record.prompt_bytes = facts.prompt_bytes.filter(|_| !is_tensors);
}

fn framing(head: &RequestHeader, body: &Bytes, is_whole: bool) -> Framing {
    let is_framed = head.headers.contains_key(header::CONTENT_LENGTH)
        || head.headers.contains_key(header::TRANSFER_ENCODING);
    match is_whole {
        true if body.is_empty() && !is_framed => Framing::None,
        true => Framing::Length(body.len() as u64),
        false => head::content_length(head).map_or(Framing::Chunked, Framing::Length),
    }
}
