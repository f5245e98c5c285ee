//! One stream of HTTP/2, as an exchange meets it.
//!
//! In: heads, bytes and ends, as they are given. Out: frames, within the client's windows, and what the client does to
//! the stream, told to the ledger. Never sends a byte that the client has not made room for.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::Respond;
use crate::body::Unread;
use crate::carrier::{Carrier, INTERIM, LINK};
use crate::http::{Answer, Ends};
use crate::request::{Head, LONGEST_BODY};
use crate::seen::Ledger;
use crate::wire::{Gone, Wire};

/// One stream. Dropped before its answer's end, it is reset.
pub(crate) struct Lane {
    /// Of its request, in the ledger.
    pub(crate) number: u64,
    ledger: Arc<Ledger>,
    body: RecvStream,
    respond: Respond,
    head: Option<Response<()>>,
    send: Option<SendStream<Bytes>>,
    over: bool,
}

impl Lane {
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        number: u64,
        body: RecvStream,
        respond: Respond,
    ) -> Lane {
        Lane {
            number,
            ledger,
            body,
            respond,
            head: None,
            send: None,
            over: false,
        }
    }

    /// Whether the answer's head was given.
    pub(crate) fn begun(&self) -> bool {
        self.head.is_some() || self.send.is_some()
    }

    /// Whether the answer's end was sent.
    pub(crate) fn over(&self) -> bool {
        self.over
    }

    /// The next piece of the request's body, for which the client gets no new room yet; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Gone> {
        match poll_fn(|cx| self.body.poll_data(cx)).await {
            Some(Ok(piece)) => {
                self.ledger.received(self.number, piece.len());
                Ok(Some(piece))
            }
            Some(Err(error)) => Err(self.broke(error.reason().filter(|_| error.is_remote()))),
            None => {
                let trailers = poll_fn(|cx| self.body.poll_trailers(cx)).await;
                let trailers = trailers.map_err(|error| self.broke(error.reason()))?;
                self.ledger.stream(self.number, |stream| {
                    if stream.over.is_none() {
                        stream.over = Some(Instant::now());
                        stream.trailers = trailers.iter().flat_map(listed).collect();
                    }
                });
                Ok(None)
            }
        }
    }

    /// The next piece of the body; once that is `over`, only the news that the client has gone.
    pub(crate) async fn news(&mut self, over: bool) -> Result<Option<Bytes>, Gone> {
        if over {
            Err(self.gone().await)
        } else {
            self.piece().await
        }
    }

    /// Makes room for so many more bytes of the body, which were read before.
    pub(crate) fn room(&mut self, bytes: usize) {
        // Fails only for more than was read.
        let _ = self.body.flow_control().release_capacity(bytes);
    }

    /// Keeps a head for the next write.
    pub(crate) fn begin(&mut self, status: u16, fields: HeaderMap) {
        let mut head = Response::new(());
        // A status out of range is no status; callers give what they were ordered to.
        *head.status_mut() = status.try_into().unwrap_or_default();
        *head.headers_mut() = fields;
        self.head = Some(head);
    }

    /// Sends the head, if one waits, and END_STREAM with it where `over`.
    pub(crate) fn open(&mut self, over: bool) -> Result<(), Gone> {
        if let Some(head) = self.head.take() {
            self.send = Some(self.respond.send_response(head, over).map_err(|_| Gone)?);
            self.over = over;
        }
        Ok(())
    }

    /// Sends bytes as the client makes room for them, and END_STREAM with the last where `over`.
    pub(crate) async fn data(&mut self, mut bytes: Bytes, over: bool) -> Result<(), Gone> {
        self.open(over && bytes.is_empty())?;
        while !bytes.is_empty() {
            let room = poll_fn(|cx| self.poll_room(bytes.len(), cx)).await?;
            let piece = bytes.split_to(room.min(bytes.len()));
            let last = over && bytes.is_empty();
            self.send(|send| send.send_data(piece, last))?;
            self.over = last;
        }
        if over && !self.over {
            self.send(|send| send.send_data(Bytes::new(), true))?;
            self.over = true;
        }
        yield_now().await;
        Ok(())
    }

    /// Ends the answer with trailers.
    pub(crate) fn trailers(&mut self, fields: HeaderMap) -> Result<(), Gone> {
        self.open(false)?;
        self.send(|send| send.send_trailers(fields))?;
        self.over = true;
        Ok(())
    }

    /// Ends the stream by RST_STREAM.
    pub(crate) fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    fn send<T>(
        &mut self,
        send: impl FnOnce(&mut SendStream<Bytes>) -> Result<T, h2::Error>,
    ) -> Result<T, Gone> {
        // Without a head there is nothing that bytes could follow.
        send(self.send.as_mut().ok_or(Gone)?).map_err(|_| Gone)
    }

    fn poll_room(&mut self, wanted: usize, cx: &mut Context<'_>) -> Poll<Result<usize, Gone>> {
        if let Poll::Ready(gone) = self.poll_gone(cx) {
            return Poll::Ready(Err(gone));
        }
        let Some(send) = &mut self.send else {
            return Poll::Ready(Err(Gone));
        };
        send.reserve_capacity(wanted);
        loop {
            if send.capacity() > 0 {
                return Poll::Ready(Ok(send.capacity()));
            }
            match ready!(send.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(Gone)),
            }
        }
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        let reset = match &mut self.send {
            Some(send) => send.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        };
        match ready!(reset) {
            Ok(reason) => Poll::Ready(self.broke(Some(reason))),
            Err(_) => Poll::Ready(Gone),
        }
    }

    fn broke(&self, reason: Option<Reason>) -> Gone {
        if let Some(reason) = reason {
            self.ledger.stream(self.number, |stream| {
                if stream.reset.is_none() {
                    stream.reset = Some((reason.into(), Instant::now()));
                }
            });
        }
        Gone
    }
}

impl Carrier for Lane {
    async fn body(&mut self, _: &Head) -> Result<Vec<u8>, Unread> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > LONGEST_BODY {
                return Err(Unread::TooLong);
            }
            body.extend_from_slice(&piece);
            self.room(piece.len());
        }
        Ok(body)
    }

    async fn interim(&mut self, status: u16) -> Result<(), Gone> {
        let mut head = Response::new(());
        *head.status_mut() = status.try_into().unwrap_or_default();
        head.headers_mut()
            .insert(INTERIM, HeaderValue::from_static(LINK));
        self.respond.send_informational(head).map_err(|_| Gone)?;
        yield_now().await;
        Ok(())
    }

    fn head(&mut self, head: &Answer<'_>) {
        let lines = head.lines();
        let fields = lines.iter().filter_map(|line| line.split_once(": "));
        self.begin(head.status, map(fields));
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.data(Bytes::copy_from_slice(bytes), false).await
    }

    async fn finish(&mut self, _: Ends) -> Result<(), Gone> {
        self.data(Bytes::new(), true).await
    }

    async fn until(&mut self, due: Instant) -> Result<(), Gone> {
        // As on a connection of HTTP/1, what is due already costs no timer.
        let due_already = due <= Instant::now();
        tokio::select! {
            biased;
            gone = self.gone() => Err(gone),
            () = yield_now(), if due_already => Ok(()),
            () = sleep_until(due), if !due_already => Ok(()),
        }
    }

    async fn gone(&mut self) -> Gone {
        poll_fn(|cx| self.poll_gone(cx)).await
    }

    fn wire(&mut self) -> Option<&mut Wire> {
        None
    }
}

/// Fields as a map; what is no field by HTTP's rules is left out.
pub(crate) fn map<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> HeaderMap {
    fields
        .into_iter()
        .filter_map(|(name, value)| {
            let value = HeaderValue::from_str(value).ok()?;
            Some((HeaderName::try_from(name).ok()?, value))
        })
        .fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
}

/// A map as fields.
pub(super) fn listed(map: &HeaderMap) -> impl Iterator<Item = (String, Vec<u8>)> {
    map.iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
}
