//! Which models may be labels.
//!
//! In: the models that the engines say they serve and the rules name. Out: a label: one of them, or `other`. What a
//! caller writes into a request never makes a label of its own, so it cannot make the metrics grow.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use greylag_filters::rules::Ruleset;

use crate::snapshot::Snapshot;

/// At most so many models are labels; the rest are `other`.
const MOST: usize = 100;

/// The models that may be labels.
#[derive(Debug, Default)]
pub struct Models {
    known: ArcSwap<HashSet<Arc<str>>>,
}

impl Models {
    /// The label of a model that a request names.
    pub fn label(&self, model: Option<&str>) -> Arc<str> {
        let known = self.known.load();
        model
            .and_then(|model| known.get(model))
            .cloned()
            .unwrap_or_else(|| OTHER.with(Arc::clone))
    }

    /// Takes the models of the rules and of what the engines have said.
    pub fn learn(&self, snapshot: &Snapshot) {
        let mut known: HashSet<Arc<str>> = HashSet::new();
        let said = snapshot.targets().iter().flat_map(|target| {
            target
                .models()
                .iter()
                .map(|model| Arc::from(&**model))
                .collect::<Vec<_>>()
        });
        known.extend(named(&snapshot.rules).chain(said).take(MOST));
        if **self.known.load() != known {
            self.known.store(Arc::new(known));
        }
    }
}

// The models that rules send to engines, by `set: { model: … }`.
fn named(rules: &Ruleset) -> impl Iterator<Item = Arc<str>> {
    rules
        .engines()
        .iter()
        .flat_map(|engine| engine.set.iter())
        .filter(|(key, _)| &**key == "model")
        .filter_map(|(_, json)| serde_json::from_slice::<String>(json).ok())
        .map(Arc::from)
}

thread_local! {
    static OTHER: Arc<str> = Arc::from("other");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn only_so_many_models_of_rules_and_engines_are_labels() {
        let rules = r#"{"engines":{"a":{"kind":"vllm","url":"http://a","set":{"model":"ours"}}},"default_engine":"a"}"#;
        let store = Store::new(&serde_json::from_str(rules).unwrap(), 7).unwrap();
        let snapshot = store.current();
        let models = Models::default();
        let check = |model: Option<&str>, label: &str| assert_eq!(&*models.label(model), label);
        check(Some("ours"), "other");
        models.learn(&snapshot);
        check(Some("ours"), "ours");
        check(Some("a caller's"), "other");
        check(None, "other");
        let said = (0..2 * MOST).map(|number| format!("m{number}").into());
        snapshot.targets()[0].set_models(said.collect());
        models.learn(&snapshot);
        check(Some("ours"), "ours");
        check(Some("m0"), "m0");
        assert_eq!(models.known.load().len(), MOST);
    }
}
