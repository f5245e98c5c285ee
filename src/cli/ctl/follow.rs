//! What is told without an end: lines as they come, of one Greylag or of several.
//!
//! In: lines. Out: the same on standard output, with the Greylag's name before each where there are several. One that is lost is told of
//! once, and looked for again; the others go on.

use std::cell::RefCell;
use std::collections::HashSet;

use futures_util::future::try_join_all;

use super::failure::{Failure, worst};
use super::fleet::Fleet;
use super::plain;
use crate::cli::api::Api;
use crate::cli::{Exit, complain, print};
use serde_json::Value;

/// A line.
#[derive(Debug)]
pub struct Line {
    /// For people; it is made plain here.
    pub text: String,
    /// For programs: JSON.
    pub json: String,
}

/// Why no more comes of one.
#[derive(Debug)]
pub enum Ended {
    /// It failed.
    Failed(Failure),
    /// Nobody reads what is told.
    Output(Exit),
}

/// What tells the lines of all.
#[derive(Debug)]
pub struct Teller<'a> {
    fleet: &'a Fleet,
    // the names of those that are away
    lost: RefCell<HashSet<String>>,
}

impl Teller<'_> {
    /// One for these.
    pub fn of(fleet: &Fleet) -> Teller<'_> {
        Teller {
            fleet,
            lost: RefCell::default(),
        }
    }

    /// Follows each; ends when none has more to tell.
    ///
    /// # Errors
    /// How the command ends when not all ended well.
    pub async fn follow(&self, each: impl AsyncFn(&Api) -> Result<(), Ended>) -> Result<(), Exit> {
        let one = async |api| match each(api).await {
            Ok(()) => Ok(None),
            Err(Ended::Failed(failure)) => {
                complain(&failure.text());
                Ok(Some(failure))
            }
            Err(Ended::Output(exit)) => Err(exit),
        };
        let ended = try_join_all(self.fleet.all.iter().map(one)).await?;
        worst(ended.iter().flatten()).map_or(Ok(()), Err)
    }

    /// Tells a line.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn tell(&self, api: &Api, line: &Line) -> Result<(), Ended> {
        let name = api.name();
        let line = match (self.fleet.is_json, self.fleet.is_several()) {
            (true, false) => plain::json(&line.json),
            (true, true) => {
                let name = Value::from(name);
                plain::json(&format!("{{\"admin\":{name},\"told\":{}}}", line.json))
            }
            (false, false) => plain::line(&line.text).into_owned(),
            (false, true) => format!("{name}: {}", plain::line(&line.text)),
        };
        print(&line).map_err(Ended::Output)
    }

    /// One is away.
    pub fn lost(&self, api: &Api, failure: &Failure) {
        if self.lost.borrow_mut().insert(api.name()) {
            complain(&format_args!(
                "{}\n  it is looked for again and again",
                failure.text()
            ));
        }
    }

    /// One is there.
    pub fn found(&self, api: &Api) {
        if self.lost.borrow_mut().remove(&api.name()) {
            complain(&format_args!("{} is there again", api.name()));
        }
    }
}
