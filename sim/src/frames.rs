//! Answers over HTTP/2 given frame for frame.
//!
//! In: [`Frames`]. Out: each act done in its turn, and how the stream ended. Never adds a frame of its own but those
//! that keep the protocol: acknowledgements, and the reset of a stream that the acts leave open.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;
use tokio::time::Instant;

use crate::carrier::Carrier;
use crate::engine::Shared;
use crate::http2::{Lane, Whole, Wholes, map};
use crate::request::LONGEST_BODY;
use crate::seen::Ending;
use crate::wire::Gone;

/// What is done in answer to one request. The window for its body opens only as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames(pub Vec<Act>);

/// Names, in lower case, and values.
pub type Fields = Vec<(String, String)>;

/// Fields from texts; what is no field by HTTP's rules is left out when it is sent.
pub fn fields<const N: usize>(fields: [(&str, &str); N]) -> Fields {
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// One act of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An informational answer with this status, 100 to 199 but for 101.
    Interim(u16),
    /// The answer's head.
    Head(u16, Fields),
    /// The answer's head with END_STREAM: an answer without a body, or gRPC's Trailers-Only.
    HeadOnly(u16, Fields),
    /// These bytes, in as many DATA frames as the client's windows ask for.
    Data(Vec<u8>),
    /// The same, and END_STREAM on the last frame; without bytes, an empty frame.
    LastData(Vec<u8>),
    /// Trailers, with END_STREAM.
    Trailers(Fields),
    /// Resets the stream with this code: 7 refuses it, where nothing was sent before.
    Reset(u32),
    /// GOAWAY with NO_ERROR: no new streams; the connection ends when all are answered.
    GoAway,
    /// GOAWAY with this code, and the connection's end; the last act.
    Abort(u32),
    /// The connection's end without GOAWAY; the last act.
    Close,
    /// Nothing for so long.
    Pause(Duration),
    /// Reads the body until at least so many bytes of it were read in all, and makes room for as many more.
    Read(u64),
    /// Reads the body to its end.
    ReadToEnd,
    /// Sends each piece of the body back, to its end, and makes room for more only when it is sent. What is echoed is
    /// counted, not kept.
    Echo,
    /// Reads nothing more, until the client has reset the stream or gone.
    WaitForReset,
}

/// Why the acts stopped before the last.
enum Stop {
    Gone,
    Broken,
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Stop {
        Stop::Gone
    }
}

/// Does all acts; events are pieces of data sent.
pub(crate) async fn play(
    frames: &Frames,
    lane: &mut Lane,
    shared: &Shared,
    wholes: &Wholes,
) -> Ending {
    let mut player = Player {
        lane,
        shared,
        wholes,
        body: Vec::new(),
        kept: false,
        events: 0,
    };
    let mut stop = Ok(());
    for act in &frames.0 {
        stop = player.act(act).await;
        if stop.is_err() {
            break;
        }
    }
    let events = player.events;
    match stop {
        Ok(()) if player.lane.over() => Ending::Answered { events },
        Ok(()) | Err(Stop::Broken) => Ending::Broken {
            after_events: events,
        },
        Err(Stop::Gone) => Ending::ClientClosed {
            after_events: events,
        },
    }
}

struct Player<'a> {
    lane: &'a mut Lane,
    shared: &'a Shared,
    wholes: &'a Wholes,
    body: Vec<u8>,
    /// Whether the ledger has the body.
    kept: bool,
    events: u64,
}

impl Player<'_> {
    async fn act(&mut self, act: &Act) -> Result<(), Stop> {
        match act {
            Act::Interim(status) => self.lane.interim(*status).await?,
            Act::Head(status, fields) => {
                self.lane.begin(*status, sent(fields));
                self.lane.open(false)?;
            }
            Act::HeadOnly(status, fields) => {
                self.lane.begin(*status, sent(fields));
                self.lane.open(true)?;
            }
            Act::Data(bytes) => self.data(bytes, false).await?,
            Act::LastData(bytes) => self.data(bytes, true).await?,
            Act::Trailers(fields) => self.lane.trailers(sent(fields))?,
            Act::Reset(code) => {
                self.lane.reset((*code).into());
                return Err(Stop::Broken);
            }
            Act::GoAway => self.ask(Whole::GoAway).await,
            Act::Abort(code) => return self.end(Whole::Abort(Reason::from(*code))).await,
            Act::Close => return self.end(Whole::Close).await,
            Act::Pause(pause) => self.lane.until(Instant::now() + *pause).await?,
            Act::Read(bytes) => while (self.body.len() as u64) < *bytes && self.read().await? {},
            Act::ReadToEnd => while self.read().await? {},
            Act::Echo => {
                while let Some(piece) = self.lane.piece().await? {
                    let length = piece.len();
                    self.lane.data(piece, false).await?;
                    self.events += 1;
                    self.lane.room(length);
                }
            }
            Act::WaitForReset => return Err(self.lane.gone().await.into()),
        }
        Ok(())
    }

    async fn data(&mut self, bytes: &[u8], over: bool) -> Result<(), Gone> {
        self.events += 1;
        self.lane.data(Bytes::copy_from_slice(bytes), over).await
    }

    /// Reads one piece of the body; false at its end.
    async fn read(&mut self) -> Result<bool, Stop> {
        let Some(piece) = self.lane.piece().await? else {
            if !std::mem::replace(&mut self.kept, true) {
                self.shared.ledger.read(self.lane.number, &self.body);
            }
            return Ok(false);
        };
        if self.body.len() + piece.len() > LONGEST_BODY {
            return Err(Stop::Broken);
        }
        self.body.extend_from_slice(&piece);
        self.lane.room(piece.len());
        Ok(true)
    }

    /// Ends the connection, and waits for that, so that the stream is not reset before.
    async fn end(&mut self, whole: Whole) -> Result<(), Stop> {
        self.ask(whole).await;
        self.lane.gone().await;
        Err(Stop::Broken)
    }

    async fn ask(&self, whole: Whole) {
        // Fails only when the connection has ended already, which the next act will find.
        let _ = self.wholes.send(whole).await;
    }
}

fn sent(fields: &Fields) -> HeaderMap {
    map(fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str())))
}
