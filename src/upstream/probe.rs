//! Asks an engine whether it is well.
//!
//! In: an engine and how it is to be asked. Out: a sign in its standing, and what the answer was. A gRPC address is asked by
//! `grpc.health.v1.Health/Check`, and any answer to that will do: servers without that service say so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use greylag_filters::framing::Framing;
use greylag_filters::health::{self, Sign};
use greylag_filters::rules::engine::{PoolRule, Probe};
use http::{HeaderName, HeaderValue, header};
use pingora_http::RequestHeader;
use tokio::time::timeout;

use super::standing::Probed;
use super::{ApiKey, Broken, Call, Limits, Pool, Reach, Target};
use crate::exchange::Origin;
use crate::snapshot::Snapshot;

/// An engine that is looked after, and how.
#[derive(Clone)]
pub struct Charge {
    /// The place.
    pub target: Arc<Target>,
    /// How it is asked.
    pub probe: Probe,
    headers: Vec<(HeaderName, HeaderValue)>,
    key: Option<Arc<ApiKey>>,
    /// Whether it is the engine's place for gRPC.
    pub is_grpc: bool,
}

impl Charge {
    /// All that the engines of these rules need.
    pub fn all(snapshot: &Snapshot) -> Vec<Charge> {
        let mut charges = Vec::new();
        for (id, engine) in snapshot.rules.each_engine() {
            let charge = |target: &Arc<Target>, is_grpc: bool| Charge {
                target: target.clone(),
                probe: engine.probe.clone(),
                headers: engine.headers.clone(),
                key: snapshot.api_key(id).cloned(),
                is_grpc,
            };
            charges.push(charge(snapshot.target(id), false));
            charges.extend(snapshot.grpc_target(id).map(|target| charge(target, true)));
        }
        charges
    }

    /// Whether this is the same place, asked in the same way.
    pub fn is(&self, other: &Charge) -> bool {
        let same_key = match (&self.key, &other.key) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        Arc::ptr_eq(&self.target, &other.target)
            && self.probe == other.probe
            && self.headers == other.headers
            && same_key
    }

    fn question(&self, path: &str) -> Option<Box<RequestHeader>> {
        let method = if self.is_grpc { "POST" } else { "GET" };
        let mut head = RequestHeader::build(method, path.as_bytes(), Some(4)).ok()?;
        let mut set = |name: HeaderName, value: HeaderValue| head.insert_header(name, value).ok();
        let host = HeaderValue::from_str(&self.target.address.authority()).ok()?;
        set(header::HOST, host)?;
        set(header::USER_AGENT, HeaderValue::from_static(AGENT))?;
        if self.is_grpc {
            set(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/grpc"),
            )?;
        }
        for (name, value) in &self.headers {
            set(name.clone(), value.clone())?;
        }
        // Without its key an engine is asked all the same: many say how they are to anybody.
        if let Some(Ok(key)) = self.key.as_ref().map(|key| key.value()) {
            set(header::AUTHORIZATION, key)?;
        }
        Some(Box::new(head))
    }
}

/// Who asks.
const AGENT: &str = concat!("greylag/", env!("CARGO_PKG_VERSION"));

/// Asks, and notes what came of it.
pub async fn probe(clock: &Origin, charge: &Charge) {
    let (began, standing) = (clock.now(), &charge.target.standing);
    let limit = charge.probe.timeout;
    let path = match charge.is_grpc {
        true => "/grpc.health.v1.Health/Check",
        false => &charge.probe.path,
    };
    let asked = timeout(limit, ask(clock, charge, path, limit)).await;
    let now = clock.now();
    let (result, sign) = match asked {
        Ok(Ok((_, status))) if charge.is_grpc => (status.to_string(), Some(Sign::Alive)),
        Ok(Ok((_, status))) => {
            let sign = health::of_probe(charge.probe.kind, status);
            (format!("{path} was answered {status}"), sign)
        }
        // Who finds no connection notes that there.
        Ok(Err(Broken::Unreachable(what) | Broken::Full(what))) => (what, None),
        Ok(Err(Broken::Closed | Broken::Reset)) => {
            (format!("{path}: the connection broke"), Some(Sign::Dead))
        }
        Ok(Err(Broken::Garbage | Broken::Unsayable)) => {
            let what = format!("{path}: what came is not an HTTP answer");
            (what, Some(Sign::Dead))
        }
        Err(_) => {
            let limit = humantime::format_duration(limit);
            let what = format!("{path}: no answer within {limit}");
            (what, Some(Sign::Dead))
        }
    };
    match sign {
        Some(Sign::Alive) => standing.lives(&charge.target.name, || now),
        Some(Sign::Dead) => standing.fails(&charge.target.name, &result, now),
        None => {}
    }
    standing.probed(Probed {
        result: match sign {
            Some(Sign::Alive) => "ok".into(),
            Some(Sign::Dead) | None => result,
        },
        took: now.saturating_sub(began),
        at: now,
    });
}

/// Asks for a path; the status of the answer, whose body is still to come.
///
/// # Errors
/// There is no answer to be had.
pub async fn ask(
    clock: &Origin,
    charge: &Charge,
    path: &str,
    limit: Duration,
) -> Result<(Call, u16), Broken> {
    // A pool that nobody takes from: the connection closes with the call.
    let pool = Pool::default();
    let limits = Limits {
        connect: limit,
        pool: PoolRule::default().limits(),
    };
    let mut call = Call::open(&pool, &charge.target, limits, Reach::Fresh, clock).await?;
    let mut question = charge.question(path).ok_or(Broken::Garbage)?;
    if let Call::H1(_) = call {
        let _ = question.insert_header(header::CONNECTION, "close");
    }
    if charge.is_grpc {
        // A message of no bytes: how is the server as a whole?
        call.write_head(&question, Framing::Length(5))?;
        call.write(&Bytes::from_static(&[0; 5])).await?;
        call.finish()?;
    } else {
        call.write_head(&question, Framing::None)?;
    }
    let status = call.read_head().await?.status.as_u16();
    Ok((call, status))
}
