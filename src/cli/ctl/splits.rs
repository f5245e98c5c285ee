//! `ctl split` and `ctl force`: who gets which share, and whether callers may choose.

use greylag_filters::rules::{Name, Ordered, WrittenTwice};
use greylag_filters::split::Weight;
use serde_json::Value;

use super::change::{self, OverlayTerms};
use super::failure::Failure;
use super::fleet::{Said, hear};
use super::table::{Table, cell, list};
use crate::cli::api::{Api, Ask};

/// A weight that somebody wants: `stable=90`.
#[derive(Debug, Clone)]
pub struct Share {
    engine: Name,
    weight: Weight,
}

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let allowed = || format!("found {text:?}; allowed is ENGINE=WEIGHT, such as stable=90");
        let (engine, weight) = text.rsplit_once('=').ok_or_else(allowed)?;
        let weight: u64 = weight.parse().map_err(|_| allowed())?;
        Ok(Share {
            engine: engine.parse().map_err(|misfit| format!("{misfit}"))?,
            weight: weight.try_into().map_err(|misfit| format!("{misfit}"))?,
        })
    }
}

/// The weights of a split's engines, in the order in which they were said.
pub type Shares = Ordered<Name, Weight>;

/// These weights.
///
/// # Errors
/// An engine is among them twice.
pub fn shares(said: &[Share]) -> Result<Shares, WrittenTwice> {
    let said = said.iter();
    Ordered::new(
        said.map(|share| (share.engine.clone(), share.weight))
            .collect(),
    )
}

/// Asks of all splits, or of one.
///
/// # Errors
/// Why nothing is known.
pub async fn show(api: &Api, name: Option<&str>) -> Result<Said, Failure> {
    let ask = Ask::get("/v1/splits");
    let heard = match name {
        Some(name) => hear(api, ask.step(name)).await?,
        None => hear(api, ask).await?,
    };
    let splits = match name {
        Some(_) => std::slice::from_ref(&heard.value),
        None => list(&heard.value, "splits"),
    };
    Ok(heard.said(table(splits).text_or("the rules have no splits")))
}

/// Moves a split.
///
/// # Errors
/// Why it was not moved.
pub async fn weigh(
    api: &Api,
    name: &str,
    shares: &Shares,
    terms: &OverlayTerms,
) -> Result<Said, Failure> {
    let body = serde_json::to_string(shares);
    let body = body.expect("names are text, so they can be keys");
    lay(api, name, "weights", body, terms).await
}

/// Lets callers choose an engine of a split, or not.
///
/// # Errors
/// Why it was not switched.
pub async fn force(
    api: &Api,
    name: &str,
    is_on: bool,
    terms: &OverlayTerms,
) -> Result<Said, Failure> {
    lay(api, name, "force", is_on.to_string(), terms).await
}

async fn lay(
    api: &Api,
    name: &str,
    what: &str,
    body: String,
    terms: &OverlayTerms,
) -> Result<Said, Failure> {
    let ask = Ask::put("/v1/splits", body).step(name).step(what);
    let until = terms.until.as_deref();
    change::make(api, ask, &terms.terms, until).await
}

/// Splits as columns, a row for each of their engines.
pub fn table(splits: &[Value]) -> Table {
    let mut table = Table::new(&[
        "SPLIT", "ENGINE", "TAG", "WEIGHT", "SHARE", "SO FAR", "FORCE", "OVERLAYS",
    ]);
    for split in splits {
        let force = match split.get("force") {
            Some(force) => {
                let is_on = force.get("on") == Some(&Value::Bool(true));
                format!(
                    "{} {}",
                    cell(force, "header"),
                    if is_on { "on" } else { "off" }
                )
            }
            None => String::new(),
        };
        let overlays = list(split, "overlays").iter().filter_map(Value::as_str);
        let overlays: Vec<&str> = overlays.collect();
        let mut about = [cell(split, "name"), force, overlays.join(" ")];
        for share in list(split, "engines") {
            let [name, force, overlays] = std::mem::replace(&mut about, blank());
            table.row([
                name,
                cell(share, "engine"),
                cell(share, "tag"),
                cell(share, "weight"),
                percent(share.get("share")),
                percent(share.get("effective_share")),
                force,
                overlays,
            ]);
        }
    }
    table
}

// A dash would say that there is none.
fn blank() -> [String; 3] {
    [" ", " ", " "].map(str::to_owned)
}

fn percent(value: Option<&Value>) -> String {
    let share = value.and_then(Value::as_f64);
    share.map_or(String::new(), |share| format!("{:.1}%", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_read() {
        let read = |texts: &[&str]| {
            let said = texts.iter().map(|text| text.parse());
            said.collect::<Result<Vec<Share>, String>>()
        };
        let said = read(&["b=90", "a=0"]).unwrap();
        let shares = shares(&said).unwrap();
        assert_eq!(
            serde_json::to_string(&shares).unwrap(),
            "{\"b\":90,\"a\":0}"
        );
        for text in [
            "a",
            "=1",
            "a=",
            "a=-1",
            "a=x",
            "a=0.5",
            "a=b=90",
            "a=1000001",
        ] {
            assert!(read(&[text]).is_err(), "{text}");
        }
        let twice = super::shares(&read(&["a=1", "a=2"]).unwrap()).unwrap_err();
        assert_eq!(twice.to_string(), "\"a\" is written twice");
    }

    #[test]
    fn a_split_has_a_row_for_each_engine() {
        let splits = serde_json::json!([{
            "name": "default",
            "engines": [
                { "engine": "stable", "tag": "v1", "weight": 90, "share": 0.9, "effective_share": 0.875 },
                { "engine": "candidate", "tag": "v2", "weight": 10, "share": 0.1 },
            ],
            "force": { "header": "x-choose", "on": false },
            "overlays": ["weights:default"],
        }]);
        let expected = "\
SPLIT    ENGINE     TAG  WEIGHT  SHARE  SO FAR  FORCE         OVERLAYS
default  stable     v1   90      90.0%  87.5%   x-choose off  weights:default
         candidate  v2   10      10.0%  -";
        assert_eq!(table(splits.as_array().unwrap()).text(), expected);
    }
}
