//! What `ctl --json` prints of one Greylag fits the API's own description.

use serde_json::{Value, json};

use super::{RULES, ctl, fine};
use crate::admin::{JSON, get};
use crate::commands::File;
use crate::harness::Greylag;
use crate::talk::Talk;

#[test]
fn json_is_what_the_description_of_the_api_says() {
    let greylag = Greylag::start(RULES);
    let admin = greylag.app().admin;
    Talk::with(greylag.address()).ask(
        "POST",
        "/v1/chat/completions",
        &[JSON, "x-request-id: one"],
        "{}",
    );
    let document = get(admin, "/openapi.json").json();
    let file = File::new(RULES);
    let weigh = [
        "split",
        "default",
        "stable=1",
        "candidate=1",
        "--reason",
        "r",
        "--until",
        "5m",
    ];
    for (arguments, path, method) in [
        (&["status"][..], "/v1/status", "get"),
        (&["engines"], "/v1/engines", "get"),
        (&["split"], "/v1/splits", "get"),
        (&["split", "default"], "/v1/splits/{name}", "get"),
        (&weigh, "/v1/splits/{name}/weights", "put"),
        (
            &["force", "default", "off"],
            "/v1/splits/{name}/force",
            "put",
        ),
        (&["overlays"], "/v1/overlays", "get"),
        (&["lift", "force:default"], "/v1/overlays/{id}", "delete"),
        (&["rules", "get"], "/v1/rules", "get"),
        (&["rules", "diff", file.path()], "/v1/rules", "put"),
        (&["rules", "put", file.path()], "/v1/rules", "put"),
        (&["history"], "/v1/history", "get"),
        (&["history", "2"], "/v1/history/{version}", "get"),
        (&["restore", "1"], "/v1/history/{version}/restore", "post"),
        (&["exchanges"], "/v1/exchanges", "get"),
        (&["exchanges", "one"], "/v1/exchanges/{id}", "get"),
        (&["reset"], "/v1/reset", "post"),
        (&["wait", "--version", "1"], "/v1/status", "get"),
    ] {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let out = fine(ctl(&[admin], &all));
        let answer: Value = serde_json::from_str(&out).unwrap();
        let responses = &document["paths"][path][method]["responses"];
        fits(
            &document,
            &responses["200"]["content"]["application/json"]["schema"],
            &answer,
        );
    }
    let (code, out, _) = ctl(&[admin], &["--json", "split", "nope"]);
    assert_eq!(code, Some(65));
    let problem: Value = serde_json::from_str(&out).unwrap();
    let responses = &document["paths"]["/v1/splits/{name}"]["get"]["responses"];
    fits(
        &document,
        &responses["404"]["content"]["application/problem+json"]["schema"],
        &problem,
    );
}

fn fits(document: &Value, schema: &Value, answer: &Value) {
    let mut schema = schema.clone();
    assert!(schema.is_object(), "found no schema for {answer}");
    schema["components"] = json!({ "schemas": document["components"]["schemas"] });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(answer)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{answer}");
}
