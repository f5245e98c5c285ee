//! Compiled rules: immutable, and all an exchange needs to know of them.

use http::{HeaderMap, HeaderName};
use xxhash_rust::xxh3::xxh3_64;

use super::engine::Engine;
use super::{Decision, EngineId, How, Request, Rules};
use crate::hops;
use crate::route::{Declared, Route};
use crate::split::{self, Instead, RetryOn, Split};
use crate::traffic::Classes;

/// Rules that compiled. Everything they name exists.
#[derive(Clone, Debug)]
pub struct Ruleset {
    pub(super) written: Rules,
    pub(super) hash: u64,
    // every EngineId of this ruleset is an index of this list
    pub(super) engines: Vec<Engine>,
    pub(super) default_engine: EngineId,
    // one for each written split, in order
    pub(super) splits: Vec<Split>,
    pub(super) wanted: Vec<Box<str>>,
    pub(super) routes: Declared,
    pub(super) classes: Classes,
}

impl Ruleset {
    /// A hash that is equal wherever the rules are equal: `XXH3_64` of their JSON, defaults filled in.
    /// Spelling (YAML or JSON, `60s` or `1m`, a default written out) does not count; the order of engines,
    /// splits, weights and keys does. Shown as 16 hexadecimal digits.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The rules as they were written.
    pub fn written(&self) -> &Rules {
        &self.written
    }

    /// All engines, in file order.
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// All engines, each with its id.
    pub fn each_engine(&self) -> impl Iterator<Item = (EngineId, &Engine)> {
        let each = self.engines.iter().enumerate();
        each.map(|(index, engine)| (EngineId::new(index), engine))
    }

    /// An engine; none if the id is of another ruleset that had more engines.
    pub fn engine(&self, id: EngineId) -> Option<&Engine> {
        self.engines.get(id.index())
    }

    /// The engine for what no split matches and for all that is not inference.
    pub fn default_engine(&self) -> EngineId {
        self.default_engine
    }

    /// The top-level body fields that [`Request::body`] must be scanned for, in this order.
    pub fn wanted_body_keys(&self) -> &[Box<str>] {
        &self.wanted
    }

    /// The route of a path, given without its query: a known one, or one that the rules declare.
    pub fn route(&self, path: &str) -> Route {
        match Route::of(path) {
            Route::Other => self
                .routes
                .dialect(path)
                .map_or(Route::Other, Route::Declared),
            known => known,
        }
    }

    /// The fields of a head that would force an engine or mark a test if their sender were believed. They must not
    /// be passed on in the name of somebody who is not: the next Greylag may believe this one.
    pub fn claims(&self, headers: &HeaderMap) -> Vec<HeaderName> {
        let force = self.splits.iter().filter_map(Split::force_header);
        let class = self.classes.mark_in(headers);
        let there = force.filter(|name| headers.contains_key(*name));
        there.chain(class).cloned().collect()
    }

    /// Whether what an exchange is called does not follow from the rules: only one engine could have been chosen, here or
    /// by a Greylag that this one is behind, so the caller or this process's own identity may name it.
    pub fn leaves_tag_open(&self, decision: &Decision) -> bool {
        self.engines.len() == 1 || decision.how == How::Hop
    }

    /// Where a request goes: to the default engine if another Greylag has routed it, else by the first split that it
    /// fits, else to the default engine. Inside a split force comes before stickiness and stickiness before the draw.
    ///
    /// `force_is_on` says of a split, by its place, whether its `force` is switched on.
    pub fn decide(
        &self,
        request: &Request<'_>,
        force_is_on: impl Fn(usize) -> bool,
        seed: u64,
        id: &[u8],
    ) -> Decision {
        let traffic = self.classes.of(request);
        if request.trusted && hops::passed(request.headers) > 0 {
            return Decision {
                engine: self.default_engine,
                split: None,
                how: How::Hop,
                traffic,
                key: None,
            };
        }
        if request.route.is_inference() {
            for (index, split) in self.splits.iter().enumerate() {
                if let Some(chosen) = split.choose(request, || force_is_on(index), seed, id) {
                    return Decision {
                        engine: chosen.engine,
                        split: Some(index),
                        how: chosen.how,
                        traffic,
                        key: Some(chosen.key),
                    };
                }
            }
        }
        Decision {
            engine: self.default_engine,
            split: None,
            how: How::Default,
            traffic,
            key: None,
        }
    }

    /// What becomes of a decision whose engine is down. The default engine has no other in its place.
    pub fn instead(&self, decision: &Decision, is_up: impl Fn(EngineId) -> bool) -> Instead {
        match self.split_of(decision) {
            Some((split, key)) => split.instead(decision.engine, key, is_up),
            None => Instead::Stay,
        }
    }

    /// The engine for an exchange that has failed on the engine `failed`, before anything was answered; none if the split
    /// does not want it to go on, or has no other engine.
    pub fn next(
        &self,
        decision: &Decision,
        failed: EngineId,
        on: RetryOn,
        is_up: impl Fn(EngineId) -> bool,
    ) -> Option<EngineId> {
        let (split, key) = self.split_of(decision)?;
        split.next(failed, key, on, is_up)
    }

    fn split_of(&self, decision: &Decision) -> Option<(&Split, split::Key)> {
        Some((self.splits.get(decision.split?)?, decision.key?))
    }
}

impl Rules {
    /// Their hash; see [`Ruleset::hash`].
    pub fn hash(&self) -> u64 {
        let json = serde_json::to_vec(self).expect("the written form has only string keys");
        xxh3_64(&json)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method};

    use super::Route;
    use crate::rules::{How, Request, Rules, compile};

    const SPLIT_OFF: &str = r#"{
        "engines": {
            "local": { "kind": "vllm", "url": "http://a" },
            "candidate": { "kind": "vllm", "url": "http://b" }
        },
        "default_engine": "local",
        "splits": [
            { "name": "default", "weights": { "candidate": 1 }, "force": { "header": "x-force" } }
        ]
    }"#;

    #[test]
    fn what_another_greylag_has_routed_is_not_split_again() {
        let rules: Rules = serde_json::from_str(SPLIT_OFF).unwrap();
        let ruleset = compile(&rules).unwrap();
        let check = |hop: &'static str, trusted: bool, engine: &str, how: How, open: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("x-greylag-hop", HeaderValue::from_static(hop));
            headers.insert("x-force", HeaderValue::from_static("candidate"));
            let request = Request {
                method: &Method::POST,
                path: "/v1/completions",
                route: Route::Completions,
                headers: &headers,
                body: None,
                client: None,
                trusted,
            };
            let decision = ruleset.decide(&request, |_| true, 1, b"id");
            let name = &*ruleset.engine(decision.engine).unwrap().name;
            assert_eq!((name, decision.how), (engine, how), "{hop} {trusted}");
            assert_eq!(ruleset.leaves_tag_open(&decision), open);
        };
        check("1", true, "local", How::Hop, true);
        check("nonsense", true, "candidate", How::Forced, false);
        check("1", false, "candidate", How::Draw, false);
    }
}
