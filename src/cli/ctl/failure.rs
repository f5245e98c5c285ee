//! Why a command did not do what it is for, at one Greylag.
//!
//! In: no answer, a problem document, or an answer that makes no sense. Out: an exit code, and lines for people that say what was
//! found, where, and what to try.

use serde_json::{Value, json};

use super::fleet::Said;
use super::plain;
use crate::cli::Exit;
use crate::cli::api::{Answer, Api, Fault, Target};

/// Why not.
#[derive(Debug)]
pub enum Failure {
    /// No answer came.
    Unanswered {
        /// What happened.
        fault: Fault,
        /// What to try.
        hint: &'static str,
    },
    /// It was refused.
    Refused {
        /// By whom.
        name: String,
        /// Its status.
        status: u16,
        /// The problem document, or what came in its place.
        text: String,
    },
    /// The answer makes no sense.
    Odd {
        /// Of whom.
        name: String,
        /// Why not.
        why: String,
    },
    /// What was waited for did not come.
    Late {
        /// Of whom.
        name: String,
        /// What is there in its place.
        found: String,
    },
    /// It was done, and was not seen in force.
    Unseen {
        /// By whom.
        name: String,
        /// What was done.
        made: Said,
        /// Why it was not seen.
        why: Box<Failure>,
    },
    /// It is ours, and no answer has to do with it.
    Ours {
        /// How to end.
        exit: Exit,
        /// What is wrong.
        what: String,
    },
}

const START: &str =
    "is it running? A pod's is reached by `kubectl port-forward POD 9901`; --admin says where";
const SECURE: &str = "is it running, and do --ca, --cert and --key fit? --admin says where";
const SOCKET: &str =
    "is it running, and does its configuration name this socket? --admin says where";

const UNSURE: &str = "whether it was done is not known: `greylag ctl history` shows what was";

impl Failure {
    /// The same, of something that was to change.
    pub fn of_change(self) -> Failure {
        match self {
            Failure::Unanswered { fault, .. } if fault.was_asked() => Failure::Unanswered {
                fault,
                hint: UNSURE,
            },
            other => other,
        }
    }

    /// No answer came.
    pub fn unanswered(api: &Api, fault: Fault) -> Failure {
        let name = api.name();
        let hint = match api.target() {
            Target::Net {
                is_secure: true, ..
            } => SECURE,
            Target::Net { .. } => START,
            Target::Unix(_) => SOCKET,
        };
        match fault {
            Fault::Unfit(unfit) => Failure::Ours {
                exit: Exit::Usage,
                what: unfit.to_string(),
            },
            Fault::Nonsense { why, .. } => Failure::Odd { name, why },
            fault => Failure::Unanswered { fault, hint },
        }
    }

    /// An answer that is not 200.
    pub fn refused(api: &Api, answer: &Answer) -> Failure {
        Failure::Refused {
            name: api.name(),
            status: answer.status,
            text: answer.text(),
        }
    }

    /// An answer that makes no sense.
    pub fn odd(api: &Api, why: impl Into<String>) -> Failure {
        Failure::Odd {
            name: api.name(),
            why: why.into(),
        }
    }

    /// What was done all the same.
    pub fn made(&self) -> Option<&Said> {
        match self {
            Failure::Unseen { made, .. } => Some(made),
            Failure::Unanswered { .. }
            | Failure::Refused { .. }
            | Failure::Odd { .. }
            | Failure::Late { .. }
            | Failure::Ours { .. } => None,
        }
    }

    /// Whether it may be otherwise in a while, with nothing done about it: a Greylag restarts, others take its places, what is before it has
    /// nobody to ask.
    pub fn may_pass(&self) -> bool {
        match self {
            Failure::Unanswered { .. } | Failure::Odd { .. } | Failure::Late { .. } => true,
            Failure::Refused { status, .. } => matches!(status, 429 | 500..),
            Failure::Unseen { .. } | Failure::Ours { .. } => false,
        }
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Unanswered { .. } => Exit::Unavailable,
            Failure::Refused { status, .. } => match status {
                401 | 403 => Exit::Denied,
                412 | 429 => Exit::TryLater,
                400..500 => Exit::Input,
                _ => Exit::Failed,
            },
            Failure::Odd { .. } => Exit::Failed,
            Failure::Late { .. } | Failure::Unseen { .. } => Exit::TryLater,
            Failure::Ours { exit, .. } => *exit,
        }
    }

    /// Lines for people; the first names the Greylag.
    pub fn text(&self) -> String {
        match self {
            Failure::Unanswered { fault, hint } => {
                format!("{}\n  {hint}", plain::line(&fault.to_string()))
            }
            Failure::Refused { name, status, text } => refused(name, *status, text),
            Failure::Odd { name, why } => {
                let why = plain::line(why);
                format!(
                    "{name} gave an answer that makes no sense: {why}\n  is the admin API there?"
                )
            }
            Failure::Late { name, found } => {
                format!("{name} was waited for in vain: {}", plain::line(found))
            }
            Failure::Unseen { name, why, .. } => {
                format!(
                    "{name} made the change, but was not seen to have it in force\n  {}",
                    why.text()
                )
            }
            Failure::Ours { what, .. } => what.clone(),
        }
    }

    /// For programs: the problem document, or one of ours.
    pub fn problem(&self) -> Value {
        let ours = |code: &str, title: &str| json!({ "type": format!("urn:greylag:ctl:{code}"), "title": title, "detail": self.text() });
        match self {
            Failure::Refused { text, .. } => serde_json::from_str(text)
                .unwrap_or_else(|_| ours("refused", "It was refused, without a problem document")),
            Failure::Unanswered { .. } => ours("unanswered", "There is no answer"),
            Failure::Odd { .. } => ours("odd", "The answer makes no sense"),
            Failure::Late { .. } => ours("late", "What was waited for did not come"),
            Failure::Unseen { .. } => ours("unseen", "It was done, and was not seen in force"),
            Failure::Ours { .. } => ours("not_done", "It was not done"),
        }
    }
}

// A problem document (RFC 9457), or whatever came in its place.
fn refused(name: &str, status: u16, text: &str) -> String {
    let problem: Value = serde_json::from_str(text).unwrap_or_default();
    let said = |key: &str| problem.get(key).and_then(Value::as_str);
    let mut lines = Vec::new();
    match (said("title"), said("detail")) {
        (None, None) => {
            let start: String = text.chars().take(200).collect();
            lines.push(format!("{name} refused it: {status}"));
            if !start.trim().is_empty() {
                lines.push(format!("  {}", plain::line(start.trim())));
            }
        }
        (title, detail) => {
            let title = plain::line(title.unwrap_or("without a title"));
            lines.push(format!("{name} refused it: {title} ({status})"));
            let detail = detail.unwrap_or_default();
            let number = |key: &str| problem.get(key).and_then(Value::as_u64);
            let place = match (number("line"), number("column")) {
                (Some(line), Some(column)) if !detail.contains("line ") => {
                    format!("line {line}, column {column}: ")
                }
                (_, _) => String::new(),
            };
            if !detail.is_empty() {
                lines.push(format!("  {place}{}", plain::line(detail)));
            }
        }
    }
    let problems = problem.get("problems").and_then(Value::as_array);
    for problem in problems.into_iter().flatten() {
        let said = |key: &str| problem.get(key).and_then(Value::as_str).unwrap_or_default();
        let (path, what) = (plain::line(said("path")), plain::line(said("what")));
        lines.push(format!("  {path}: {what}"));
    }
    if status == 401 {
        lines.push("  --token-file names a file that holds a token".to_owned());
    }
    lines.join("\n")
}

/// The exit code of several failures: what hides the others first.
pub fn worst<'a>(failures: impl IntoIterator<Item = &'a Failure>) -> Option<Exit> {
    const ORDER: [Exit; 4] = [Exit::Unavailable, Exit::Denied, Exit::TryLater, Exit::Input];
    let exits: Vec<Exit> = failures.into_iter().map(Failure::exit).collect();
    let first = ORDER.into_iter().find(|exit| exits.contains(exit));
    first.or_else(|| exits.first().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, text: &str) -> Failure {
        Failure::Refused {
            name: "http://127.0.0.1:1".into(),
            status,
            text: text.into(),
        }
    }

    #[test]
    fn each_status_has_its_exit_code() {
        for (statuses, exit) in [
            (&[400, 404, 405, 409, 413, 415, 422][..], Exit::Input),
            (&[401, 403], Exit::Denied),
            (&[412, 429], Exit::TryLater),
            (&[500, 502, 503, 302, 204], Exit::Failed),
        ] {
            for status in statuses {
                assert_eq!(of(*status, "").exit(), exit, "{status}");
            }
        }
    }

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        for (status, expected) in [
            (429, true),
            (500, true),
            (503, true),
            (400, false),
            (401, false),
            (412, false),
        ] {
            assert_eq!(of(status, "").may_pass(), expected, "{status}");
        }
        let ours = Failure::Ours {
            exit: Exit::Usage,
            what: "no".into(),
        };
        assert!(!ours.may_pass());
    }

    #[test]
    fn of_several_failures_the_one_that_hides_others_counts() {
        let down = || Failure::Unanswered {
            fault: Fault::Silent {
                name: "a".into(),
                patience: std::time::Duration::from_secs(1),
            },
            hint: START,
        };
        let check = |failures: &[Failure], exit| assert_eq!(worst(failures), exit);
        check(&[], None);
        check(&[of(500, ""), of(422, "")], Some(Exit::Input));
        check(&[of(422, ""), of(412, "")], Some(Exit::TryLater));
        check(&[of(412, ""), of(403, "")], Some(Exit::Denied));
        check(&[of(403, ""), down()], Some(Exit::Unavailable));
        check(&[of(500, "")], Some(Exit::Failed));
    }

    #[test]
    fn a_problem_is_shown_with_all_that_is_wrong() {
        let document = json!({
            "type": "urn:greylag:problem:invalid_rules", "title": "The rules do not compile", "status": 422,
            "detail": "there are 2 problems; nothing was changed",
            "problems": [{ "path": "rules.a", "what": "no" }, { "path": "rules.b", "what": "\u{1b}[2J" }],
        });
        let expected = "http://127.0.0.1:1 refused it: The rules do not compile (422)\n  there are 2 problems; nothing was changed\n  \
            rules.a: no\n  rules.b: \\u{1b}[2J";
        assert_eq!(of(422, &document.to_string()).text(), expected);
        let placed = json!({ "title": "T", "detail": "d", "line": 2, "column": 10 });
        let expected = "http://127.0.0.1:1 refused it: T (400)\n  line 2, column 10: d";
        assert_eq!(of(400, &placed.to_string()).text(), expected);
        let page = of(502, "<html>\x1b[1m").text();
        assert_eq!(
            page,
            "http://127.0.0.1:1 refused it: 502\n  <html>\\u{1b}[1m"
        );
    }
}
