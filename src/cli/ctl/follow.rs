//! What is told without an end: lines as they come, of one Greylag or of several.
//!
//! In: lines. Out: the same on standard output, with the Greylag's name before each where there are several. One that was there and is
//! lost, or refuses (429, 5xx) or makes no sense for a while, is told of once, and looked for again; the others go on. One that was never
//! there, or refuses for good, ends.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::failure::{Failure, worst};
use super::fleet::Fleet;
use super::plain;
use crate::cli::api::Api;
use crate::cli::{Exit, complain, print};

/// How long before a lost one is looked for again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

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
        let line = match (self.fleet.is_json, self.fleet.is_several()) {
            (true, _) => self.fleet.line(api, &line.json),
            (false, false) => plain::line(&line.text).into_owned(),
            (false, true) => format!("{}: {}", api.name(), plain::line(&line.text)),
        };
        print(&line).map_err(Ended::Output)
    }

    fn lost(&self, api: &Api, failure: &Failure) {
        if self.lost.borrow_mut().insert(api.name()) {
            complain(&format_args!(
                "{}\n  it is looked for again and again",
                failure.text()
            ));
        }
    }

    fn found(&self, api: &Api) {
        if self.lost.borrow_mut().remove(&api.name()) {
            complain(&format_args!("{} is there again", api.name()));
        }
    }
}

/// One that is followed: it is looked for again when it is lost.
#[derive(Debug)]
pub struct Followed<'a> {
    /// Where it is.
    pub api: &'a Api,
    /// What tells its lines.
    pub teller: &'a Teller<'a>,
    was_there: bool,
    pause: Duration,
}

impl Followed<'_> {
    /// One that was not there so far.
    pub fn new<'a>(api: &'a Api, teller: &'a Teller<'a>) -> Followed<'a> {
        Followed {
            api,
            teller,
            was_there: false,
            pause: PAUSES.0,
        }
    }

    /// It is there.
    pub fn found(&mut self) {
        self.was_there = true;
        self.teller.found(self.api);
    }

    /// Something came of it: once it is lost, it is looked for soon.
    pub fn came(&mut self) {
        self.pause = PAUSES.0;
    }

    /// It is lost. Ends when it is to be looked for again.
    ///
    /// # Errors
    /// It need not be.
    pub async fn lost(&mut self, failure: Failure) -> Result<(), Ended> {
        if !self.was_there || !failure.may_pass() {
            return Err(Ended::Failed(failure));
        }
        self.teller.lost(self.api, &failure);
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}
