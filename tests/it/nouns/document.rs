//! The document of the API, held against its answers.

use greylag_sim::Load;
use serde_json::{Value, json};

use super::{WEIGHTS, rules};
use crate::admin::{JSON, get, put};
use crate::harness::{Greylag, sim};
use crate::talk::ask;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_as_the_document_says() {
    let engine = sim().await;
    let mut rules = rules();
    for name in ["stable", "candidate"] {
        rules["engines"][name]["url"] = json!(format!("http://{}", engine.address()));
    }
    let greylag = Greylag::start(&rules.to_string());
    let load = Load {
        requests: 8,
        ..Load::to(greylag.address())
    };
    assert_eq!(load.start().done().await.ok, 8);
    let admin = greylag.app().admin;
    tokio::task::spawn_blocking(move || answers(admin))
        .await
        .unwrap();
}

fn answers(admin: std::net::SocketAddr) {
    let lay = || {
        put(
            admin,
            &format!("{WEIGHTS}?reason=r&until=1h"),
            &[JSON],
            r#"{"stable":1,"candidate":1}"#,
        )
    };
    lay();
    let document = get(admin, "/openapi.json").json();
    let exchange = get(admin, "/v1/exchanges?limit=1").json()["exchanges"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let fits = |schema: &Value, value: &Value| {
        let whole =
            json!({ "$ref": "#/schema", "schema": schema, "components": document["components"] });
        let validator = jsonschema::validator_for(&whole).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(value)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{faults:?}\n{value}");
    };
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = if path.contains("engines") {
                "stable"
            } else {
                "canary"
            };
            let id = if path.contains("exchanges") {
                &exchange
            } else {
                "weights:canary"
            };
            let target = path
                .replace("{name}", name)
                .replace("{version}", "1")
                .replace("{id}", id);
            let body = match (method.as_str(), path.as_str()) {
                ("get", "/v1/events") | ("delete", _) => continue,
                ("put", "/v1/rules") => get(admin, "/v1/rules").text(),
                ("put", path) if path.ends_with("weights") => {
                    r#"{"stable":1,"candidate":2}"#.to_owned()
                }
                ("put", _) => "true".to_owned(),
                ("post", "/v1/feedback") => {
                    json!({ "request_id": exchange, "metric": "m", "value": 1 }).to_string()
                }
                _ => String::new(),
            };
            // Some of them lift it.
            lay();
            let answer = ask(admin, &method.to_uppercase(), &target, &[JSON], &body);
            assert_eq!(answer.status, 200, "{method} {target}: {}", answer.text());
            let content = &operation["responses"]["200"]["content"]["application/json"];
            fits(&content["schema"], &answer.json());
            if let Some(taken) =
                operation["requestBody"]["content"]["application/json"].get("schema")
            {
                fits(taken, &serde_json::from_str(&body).unwrap());
            }
            // And what is refused.
            let refused = ask(
                admin,
                &method.to_uppercase(),
                &format!("{target}?nonsense=1"),
                &[JSON],
                &body,
            );
            assert_eq!(refused.status, 400, "{method} {target}");
            fits(
                &operation["responses"]["400"]["content"]["application/problem+json"]["schema"],
                &refused.json(),
            );
            let keys = operation["parameters"].as_array().into_iter().flatten();
            let keys: Vec<&str> = keys
                .filter(|one| one["in"] == "query")
                .map(|one| one["name"].as_str().unwrap())
                .collect();
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(
                detail.ends_with(&format!("allowed: {}", keys.join(", "))),
                "{method} {target}: {detail}, {keys:?}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn every_operation_has_its_row_in_the_documentation() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/admin-api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<String> = greylag::admin::operations()
        .iter()
        .map(|one| format!("| `{}` | `{}` | {} |", one.path, one.method, one.summary))
        .collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !text.contains(*row)).collect();
    assert!(
        missing.is_empty(),
        "docs/admin-api.md must have:\n{}",
        rows.join("\n")
    );
}
