//! The way in: from a connection to exchanges.
//!
//! In: a connection that was accepted. Out: for HTTP/1 a loop of exchanges, for HTTP/2 an exchange a stream. Connections
//! are counted; past the limit they are answered 503 and closed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use greylag_filters::refusal::Family;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::preface::{self, Rewound};
use super::proxy::{self, Unsaid};
use super::{Manner, Seats, h2};
use crate::config::Protocol;
use crate::relay::caller::is_in;
use crate::relay::client::{Client, HEAD, NoHead, h1};
use crate::relay::cut::Registry;
use crate::relay::{self, Worker};
use crate::reply::{Reason, Refusal};
use crate::socket::Socket;
use crate::tls;
use crate::upstream::Speaks;

/// How long a TLS handshake may take, and a PROXY header before it.
const SHAKE: Duration = Duration::from_secs(10);

/// Where connections come in: one for each worker.
pub struct Door {
    /// The worker behind it.
    pub worker: Worker,
    /// The seats of all doors.
    pub seats: Arc<Seats>,
    /// Where those wait for their refusal who find no seat; who finds no place here either is closed at once.
    pub turned_away: Arc<Seats>,
    /// Who is told when the drain ends.
    pub registry: Arc<Registry>,
}

// Ends when a connection without a request need not be kept: between two requests nothing is owed, while a first one may
// be on its way, since its connection was accepted.
async fn stopped(stop: &mut watch::Receiver<bool>, is_reused: bool) {
    const FIRST: Duration = Duration::from_secs(1);
    let _ = stop.wait_for(|stopping| *stopping).await;
    if !is_reused {
        tokio::time::sleep(FIRST).await;
    }
}

impl Door {
    /// Serves a connection to its end.
    pub async fn enter(
        self: Arc<Self>,
        mut socket: Socket,
        manner: Manner,
        mut stop: watch::Receiver<bool>,
    ) {
        let Some(_seat) = self.seats.sit() else {
            if let (Some(_seat), None) = (self.turned_away.sit(), &manner.tls) {
                let address = socket.peer();
                self.turn_away(self.client(socket, address, Vec::new()))
                    .await;
            }
            return;
        };
        let mut address = socket.peer();
        if manner.proxy_protocol {
            match self.introduced(&mut socket, &mut stop).await {
                Some(said) => address = said,
                None => return,
            }
        }
        match (&manner.tls, socket) {
            (Some(tls), Socket::Tcp(stream)) => {
                self.clone().shake(stream, address, tls.clone(), stop).await;
            }
            (_, socket) => match manner.protocol {
                Protocol::Http1 => {
                    self.serve(self.client(socket, address, Vec::new()), stop)
                        .await;
                }
                Protocol::H2c => self.serve_either(socket, address, stop).await,
            },
        }
    }

    fn client(&self, socket: Socket, address: Option<IpAddr>, ahead: Vec<u8>) -> Box<h1::Client> {
        let limit = self.worker.shared.limits.write.get();
        Box::new(h1::Client::new(socket, address, ahead, limit))
    }

    // The client's address, as the load balancer says; none if it cannot be believed or says nothing that can be read.
    // Nobody could read an answer then.
    async fn introduced(
        &self,
        socket: &mut Socket,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<Option<IpAddr>> {
        let shared = &self.worker.shared;
        let peer = socket.peer();
        let Some(trusted) = peer.filter(|peer| is_in(&shared.trusted, *peer)) else {
            shared.telemetry.metrics.refused(Reason::ProxyUntrusted);
            tracing::warn!(
                name: "greylag.client.proxy_untrusted",
                ?peer,
                "a peer that is not trusted connected where a PROXY header comes first"
            );
            return None;
        };
        let mut cut = self.registry.enter();
        let read = tokio::select! {
            biased;
            read = timeout(SHAKE, proxy::read(socket, trusted)) => read,
            () = stopped(stop, false) => return None,
            () = cut.come() => return None,
        };
        let why = match read {
            Ok(Ok(address)) => return Some(address),
            Ok(Err(Unsaid::Silence)) => return None,
            Ok(Err(unsaid)) => unsaid.to_string(),
            Err(_) => "the PROXY header took too long".to_owned(),
        };
        shared.telemetry.metrics.refused(Reason::ProxyHeader);
        tracing::warn!(
            name: "greylag.client.proxy_header",
            ?peer,
            why,
            "a connection is closed that must begin with a PROXY header"
        );
        None
    }

    async fn shake(
        self: Arc<Self>,
        stream: TcpStream,
        address: Option<IpAddr>,
        tls: Arc<tls::Server>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut cut = self.registry.enter();
        let shaken = tokio::select! {
            biased;
            shaken = timeout(SHAKE, tls::accept(stream, &tls)) => shaken,
            () = stopped(&mut stop, false) => return,
            () = cut.come() => return,
        };
        match shaken {
            Ok(Ok((socket, Speaks::H2))) => {
                h2::serve(self, socket, address, stop, cut).await;
            }
            Ok(Ok((socket, Speaks::Http1))) => {
                drop(cut);
                self.serve(self.client(socket, address, Vec::new()), stop)
                    .await;
            }
            Ok(Err(tls::Shaken::Plain(stream))) => {
                let refusal = Refusal::new(
                    Reason::BadRequest,
                    "TLS is spoken on this port, and this request came without",
                );
                let client = self.client(Socket::Tcp(stream), address, Vec::new());
                self.refuse(client, &refusal).await;
            }
            Ok(Err(tls::Shaken::Failed(why))) => {
                self.worker
                    .shared
                    .telemetry
                    .metrics
                    .refused(Reason::TlsHandshake);
                tracing::warn!(name: "greylag.client.tls_handshake", client = ?address, error = why, "a TLS handshake failed");
            }
            Err(_) => self
                .worker
                .shared
                .telemetry
                .metrics
                .refused(Reason::TlsHandshake),
        }
    }

    // Health probes ask in HTTP/1 on any port, so what does not begin as HTTP/2 is served as that.
    async fn serve_either(
        self: Arc<Self>,
        mut socket: Socket,
        address: Option<IpAddr>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut cut = self.registry.enter();
        let begun = tokio::select! {
            biased;
            begun = timeout(HEAD, preface::read(&mut socket)) => begun,
            () = stopped(&mut stop, false) => return,
            () = cut.come() => return,
        };
        let Ok(Ok(begun)) = begun else { return };
        if preface::is_whole(&begun) {
            h2::serve(self, Rewound::new(begun, socket), address, stop, cut).await;
        } else {
            drop(cut);
            self.serve(self.client(socket, address, begun), stop).await;
        }
    }

    async fn serve(&self, mut client: Box<h1::Client>, mut stop: watch::Receiver<bool>) {
        let mut cut = self.registry.enter();
        loop {
            let is_reused = client.is_reused();
            let head = tokio::select! {
                biased;
                head = client.read_head() => head,
                () = stopped(&mut stop, is_reused) => return,
                () = cut.come() => return,
            };
            match head {
                Ok(()) => {}
                Err(NoHead::Silence) => return,
                Err(NoHead::Refused(refusal)) => return self.refuse(client, &refusal).await,
            }
            let mut either = Client::H1(client);
            let may_go_on = relay::carry(&self.worker, &mut either, &mut cut).await;
            let Client::H1(served) = either else { return };
            if !may_go_on {
                return;
            }
            match served.next().await {
                Some(next) => client = next,
                None => return,
            }
        }
    }

    async fn turn_away(&self, client: Box<h1::Client>) {
        let message = format!(
            "all {} connections of limits.connections are in use",
            self.seats.limit()
        );
        let refusal = Refusal::new(Reason::TooManyConnections, message);
        self.refuse(client, &refusal).await;
    }

    // Answers what never became an exchange.
    async fn refuse(&self, mut client: Box<h1::Client>, refusal: &Refusal) {
        self.worker.shared.telemetry.metrics.refused(refusal.reason);
        client.close_after();
        let mut either = Client::H1(client);
        let told = either.refuse(refusal, Family::OpenAi).await.is_ok();
        if let (true, Client::H1(client)) = (told, either) {
            client.linger().await;
        }
    }
}
