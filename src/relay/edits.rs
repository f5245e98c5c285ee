//! What an engine's rules change in a body.
//!
//! In: an engine, and what was read of the body. Out: the body with its members spliced, or as it came. Only what a rule asks
//! for is touched.

use greylag_filters::edit::{self, Edit};
use greylag_filters::facts;
use greylag_filters::meter::Dialect;
use greylag_filters::refusal::Family;
use greylag_filters::rules::engine::{Engine, Usage};
use http::Method;

use super::request::Facts;
use super::stop::Stop;
use crate::exchange::Exchange;
use crate::reply::Reason;

/// What an engine's rules want changed in a body.
pub struct Edits<'a> {
    set: &'a [(Box<str>, Vec<u8>)],
    /// Whether usage is asked for on the caller's behalf.
    pub usage: bool,
}

impl<'a> Edits<'a> {
    /// What this engine wants of this request.
    pub fn of(engine: &'a Engine, exchange: &Exchange, facts: Option<&facts::Body>) -> Self {
        let route = exchange.record.route;
        // A message is carried as it is.
        let applies = route.is_inference()
            && route.family() != Family::Grpc
            && exchange.record.method == Method::POST;
        let can_ask = route.dialect().is_some_and(Dialect::takes_usage_option);
        Edits {
            set: if applies { &engine.set } else { &[] },
            usage: engine.usage == Usage::Inject && can_ask && facts.is_some_and(edit::wants_usage),
        }
    }

    /// The body as the engine gets it; none: as it came.
    ///
    /// # Errors
    /// It must be edited, and cannot be.
    pub fn apply(
        &self,
        body: &[u8],
        facts: Option<&Facts>,
        is_whole: bool,
    ) -> Result<Option<Vec<u8>>, Stop> {
        if self.set.is_empty() && !self.usage {
            return Ok(None);
        }
        if !is_whole {
            return Err(Stop::refuse(
                Reason::BodyTooLarge,
                "the chosen engine's `set` must edit this body, which is longer than limits.body",
            ));
        }
        // An encoded body has no facts and is not edited, which has been counted.
        let Some(facts) = facts else { return Ok(None) };
        let facts = facts.as_ref().map_err(|fault| {
            Stop::refuse(
                Reason::InvalidJson,
                format!("the chosen engine's `set` must edit this body, which is not a JSON object: {fault}"),
            )
        })?;
        let set = self.set.iter().map(|(key, json)| Edit::Set { key, json });
        let edits: Vec<Edit<'_>> = set
            .chain(self.usage.then_some(Edit::IncludeUsage))
            .collect();
        Ok(Some(edit::splice(body, &facts.spans, &edits)))
    }
}
