//! WebSockets: the handshake, and then every byte sent back.
//!
//! In: a GET that asks for one. Out: 101 at once, and the client's own bytes. Frames are not looked at, so that what comes
//! back is what was sent, masked or not.

use sha1::{Digest, Sha1};
use tokio::time::Instant;

use super::{End, Exchange, Next};
use crate::call::Refusal;
use crate::carrier::Carrier;
use crate::page::Page;
use crate::request::{Head, has_token};

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked(head: &Head) -> bool {
    let has = |name, token| {
        head.header(name)
            .is_some_and(|value| has_token(value, token))
    };
    head.method == "GET" && has("upgrade", "websocket") && has("connection", "upgrade")
}

impl<C: Carrier> Exchange<'_, C> {
    /// Accepts a WebSocket and sends its bytes back until the client leaves.
    pub(super) async fn tunnel(&mut self) -> Result<Next, End> {
        let Some(key) = self.head.header("sec-websocket-key") else {
            let message = "a WebSocket needs a key".to_owned();
            let refusal = Refusal::header("sec-websocket-key", message);
            return self.page(Page::refusal(&refusal)).await;
        };
        let accept = accept(key);
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
        );
        let greeting = vec![b'x'; self.order.greeting];
        self.wire()?
            .write(&[head.as_bytes(), &greeting].concat())
            .await?;
        let mut sent = 0;
        loop {
            if let Some((after, length)) = self.order.stall
                && after <= sent
            {
                match length {
                    Some(length) => self.carrier.until(Instant::now() + length).await?,
                    None => return Err(self.carrier.gone().await.into()),
                }
                self.order.stall = None;
            }
            if let Some((after, how)) = self.order.cut
                && after <= sent
            {
                return Err(End::Broken(how));
            }
            let wire = self.wire()?;
            if wire.inbox.is_empty() {
                wire.fill().await?;
            }
            let mut bytes = std::mem::take(&mut wire.inbox);
            // What is behind the place of a cut or a stall comes later, if at all.
            let stop = [
                self.order.cut.map(|cut| cut.0),
                self.order.stall.map(|stall| stall.0),
            ];
            let room = stop.into_iter().flatten().min().unwrap_or(u64::MAX) - sent;
            let rest =
                bytes.split_off(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            self.shared.ledger.received(self.number, bytes.len());
            let wire = self.wire()?;
            wire.inbox = rest;
            wire.write(&bytes).await?;
            sent += bytes.len() as u64;
        }
    }
}

/// `Sec-WebSocket-Accept` for a key (RFC 6455, section 4.2.2).
fn accept(key: &str) -> String {
    base64(&Sha1::digest(format!(
        "{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    )))
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at > three.len() { '=' } else { letter.into() });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_answered_as_the_standard_does() {
        // The example of RFC 6455, section 1.3, and those of RFC 4648, section 10.
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
