//! The Greylags that a command is for.
//!
//! In: where they are, and what is asked of each. Out: what each said, under a heading where there are several, and one exit code for
//! all. All are asked at the same time, and one that fails stops no other.

use futures_util::future::join_all;
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::{Failure, worst};
use super::plain;
use crate::cli::api::{Answer, Api, Ask};
use crate::cli::{Exit, complain, print};

/// The Greylags, at least one.
#[derive(Debug)]
pub struct Fleet {
    /// All of them.
    pub all: Vec<Api>,
    /// Whether programs read what comes of it.
    pub is_json: bool,
}

/// What a command has to say of one Greylag.
#[derive(Debug)]
pub struct Said {
    /// For people.
    pub text: String,
    /// For programs: JSON, as it was answered.
    pub answer: String,
}

/// What was answered with 200.
#[derive(Debug)]
pub struct Heard {
    /// As JSON.
    pub value: Value,
    /// The answer itself.
    pub answer: Answer,
}

impl Heard {
    /// What is said of it: this to people, and to programs what was answered.
    pub fn said(&self, text: String) -> Said {
        Said {
            text,
            answer: self.answer.text(),
        }
    }
}

/// Asks for JSON.
///
/// # Errors
/// No answer, or one that is not 200, or no JSON.
pub async fn hear(api: &Api, ask: Ask) -> Result<Heard, Failure> {
    let answer = api.ask(ask).await;
    let answer = answer.map_err(|fault| Failure::unanswered(api, fault))?;
    if answer.status != 200 {
        return Err(Failure::refused(api, &answer));
    }
    let value = answer.json().map_err(|why| Failure::odd(api, why))?;
    Ok(Heard { value, answer })
}

impl Fleet {
    /// Whether there are several.
    pub fn is_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The only one.
    ///
    /// # Errors
    /// There are several, and `what` works on one alone.
    pub fn only(&self, what: &str) -> Result<&Api, Exit> {
        match self.all.as_slice() {
            [one] => Ok(one),
            several => {
                let found = several.len();
                complain(&format_args!(
                    "{what} works on one Greylag, found {found}; name one with --admin"
                ));
                Err(Exit::Usage)
            }
        }
    }

    /// Asks all at once, and tells what each said.
    ///
    /// # Errors
    /// How the command ends when not all did well.
    pub async fn each(&self, ask: impl AsyncFn(&Api) -> Result<Said, Failure>) -> Result<(), Exit> {
        self.tell(&self.asked(ask).await)
    }

    /// The same for a change: where some have made it and others have not, that is said.
    ///
    /// # Errors
    /// How the command ends when not all did well.
    pub async fn change(
        &self,
        ask: impl AsyncFn(&Api) -> Result<Said, Failure>,
    ) -> Result<(), Exit> {
        let results = self.asked(ask).await;
        let told = self.tell(&results);
        let is_undone = |result: &&Result<Said, Failure>| match result {
            Ok(_) => false,
            Err(failure) => failure.made().is_none(),
        };
        let failed = results.iter().filter(is_undone).count();
        if failed > 0 && self.is_several() {
            let all = results.len();
            complain(&format_args!(
                "done at {} of {all}; a change is made by each Greylag alone, and those that made it keep it",
                all - failed
            ));
        }
        told
    }

    async fn asked(
        &self,
        ask: impl AsyncFn(&Api) -> Result<Said, Failure>,
    ) -> Vec<Result<Said, Failure>> {
        join_all(self.all.iter().map(|api| ask(api))).await
    }

    /// Tells what each said, in their order.
    ///
    /// # Errors
    /// How the command ends when not all did well.
    pub fn tell(&self, results: &[Result<Said, Failure>]) -> Result<(), Exit> {
        match self.is_json {
            true => self.for_programs(results)?,
            false => self.for_people(results)?,
        }
        let failures = results.iter().filter_map(|result| result.as_ref().err());
        worst(failures).map_or(Ok(()), Err)
    }

    /// What stands above what one says: its name, where there are several.
    pub fn heading(&self, api: &Api) -> String {
        match self.is_several() {
            true => format!("== {}\n", api.name()),
            false => String::new(),
        }
    }

    /// A line of JSON that one tells, for programs; of several with its name.
    pub fn line(&self, api: &Api, json: &str) -> String {
        match self.is_several() {
            true => plain::json(&named(api, &[("told", json)])),
            false => plain::json(json),
        }
    }

    fn for_people(&self, results: &[Result<Said, Failure>]) -> Result<(), Exit> {
        for (index, (api, result)) in self.all.iter().zip(results).enumerate() {
            let space = if index > 0 { "\n" } else { "" };
            let heading = match self.heading(api) {
                heading if heading.is_empty() => heading,
                heading => format!("{space}{heading}"),
            };
            match result {
                Ok(said) => print(&format!("{heading}{}", said.text))?,
                Err(failure) => match failure.made() {
                    Some(made) => {
                        print(&format!("{heading}{}", made.text))?;
                        complain(&failure.text());
                    }
                    None => complain(&format_args!("{heading}{}", failure.text())),
                },
            }
        }
        Ok(())
    }

    fn for_programs(&self, results: &[Result<Said, Failure>]) -> Result<(), Exit> {
        if let [result] = results {
            return match result {
                Ok(said) => print(plain::json(&said.answer).trim_end()),
                Err(failure) => {
                    complain(&failure.text());
                    match failure.made() {
                        Some(made) => print(plain::json(&made.answer).trim_end()),
                        None => print(&plain::json(&failure.problem().to_string())),
                    }
                }
            };
        }
        let entry = |(api, result): (&Api, &Result<Said, Failure>)| match result {
            Ok(said) => named(api, &[("ok", "true"), ("answer", said.raw())]),
            Err(failure) => {
                let problem = failure.problem().to_string();
                let made = failure.made().map(|made| ("answer", made.raw()));
                let mut said = vec![("ok", "false"), ("problem", &*problem)];
                said.extend(made);
                named(api, &said)
            }
        };
        let entries: Vec<String> = self.all.iter().zip(results).map(entry).collect();
        print(&plain::json(&format!("[{}]", entries.join(",\n"))))
    }
}

impl Said {
    // The answer as it came: a tree of it would have its keys in another order. What is no JSON is not passed on.
    fn raw(&self) -> &str {
        let answer: Result<&RawValue, _> = serde_json::from_str(&self.answer);
        answer.map_or("null", RawValue::get)
    }
}

// What one of several says: JSON by key.
fn named(api: &Api, said: &[(&str, &str)]) -> String {
    let said = said.iter().map(|(key, json)| format!(",\"{key}\":{json}"));
    format!(
        "{{\"admin\":{}{}}}",
        Value::from(api.name()),
        said.collect::<String>()
    )
}
