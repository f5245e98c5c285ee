//! The rules: all that may change while running.
//!
//! In: the written form, from YAML or JSON. Out: a [`Ruleset`], the only thing the relay accepts, or all
//! problems at once. The written form is kept inside, so that it can be shown; the relay never reads it.

mod address;
mod compile;
mod decision;
pub mod engine;
mod literal;
mod name;
pub(crate) mod ordered;
pub(crate) mod problem;
mod ruleset;
mod secret;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use address::{Address, Fault as AddressFault};
pub use compile::compile;
pub use decision::{Decision, EngineId, How, Request};
pub use literal::Literal;
pub use name::{Name, Tag};
pub use ordered::{Ordered, WrittenTwice};
pub use problem::{Problem, Step};
pub use ruleset::Ruleset;
pub use secret::{HIDDEN, Secret};

use crate::{split, trace, traffic};

/// Rules as they are written: what stands under `rules` in the file, and what the API takes as JSON.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The inference servers, by name, in this order. At least one.
    pub engines: Ordered<Name, engine::Rule>,
    /// The engine for what no split matches and for all that is not inference.
    pub default_engine: Name,
    /// How inference requests are split between engines: of these, the first whose `match` fits decides.
    /// Default: none, so everything goes to the default engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<split::Rule>,
    /// Paths whose requests are inference too, each with the dialect of its answers: `chat`, `completions`, `responses`,
    /// `embeddings`, `score`, `rerank`, `audio`, `messages`, `generate`, `generate_stream`, `completion`, `triton_infer`,
    /// `triton_generate`, or `json` for services whose answers are JSON of any shape. A path is exact, or a beginning
    /// (`/apps/*`); the same path comes before a beginning, and a longer beginning before a shorter one. The known
    /// inference routes stay what they are. Default: none.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub routes: Ordered<String, String>,
    /// How test traffic is told from real traffic.
    #[serde(default)]
    pub traffic: traffic::Rule,
    /// How exchanges are traced.
    #[serde(default)]
    pub trace: trace::Rule,
}

impl Rules {
    /// The default engine alone, for when the rest cannot be used; none if that cannot be used either.
    pub fn pass_through(&self) -> Option<Rules> {
        let rule = self.engines.at(self.default_engine.as_str())?.clone();
        let only = vec![(self.default_engine.clone(), rule)];
        let rules = Rules {
            engines: Ordered::new(only).ok()?,
            default_engine: self.default_engine.clone(),
            splits: Vec::new(),
            routes: Ordered::default(),
            traffic: traffic::Rule::default(),
            trace: trace::Rule::default(),
        };
        compile(&rules).is_ok().then_some(rules)
    }
}

/// What a fuzzer feeds: no bytes may panic, and what compiles must survive being printed and read again.
#[cfg(any(test, fuzzing))]
pub fn fuzz_rules_json(bytes: &[u8]) {
    use crate::facts;
    use crate::route::Route;

    let Ok(rules) = serde_json::from_slice::<Rules>(bytes) else {
        return;
    };
    let printed = serde_json::to_vec(&rules).expect("the written form has only string keys");
    let again: Rules = serde_json::from_slice(&printed).expect("what is printed can be read");
    assert_eq!(rules, again);
    let Ok(ruleset) = compile(&rules) else {
        return;
    };
    assert_eq!(
        ruleset.hash(),
        compile(&again).expect("equal rules compile alike").hash()
    );
    let headers = http::HeaderMap::new();
    let body = facts::scan(br#"{"model":"m","user":"u"}"#, ruleset.wanted_body_keys()).ok();
    let decision = ruleset.decide(
        &Request {
            method: &http::Method::POST,
            path: "/v1/chat/completions",
            route: Route::ChatCompletions,
            headers: &headers,
            body: body.as_ref(),
            client: None,
            trusted: true,
        },
        |_| true,
        1,
        bytes,
    );
    assert!(ruleset.engine(decision.engine).is_some());
    assert_eq!(ruleset.instead(&decision, |_| false), split::Instead::Stay);
    let next = ruleset.next(&decision, decision.engine, split::RetryOn::Connect, |_| {
        true
    });
    assert_ne!(next, Some(decision.engine));
}

#[cfg(test)]
mod tests;
