//! How much callers can make Greylag hold.

use greylag_filters::feedback;

use super::{Stage, said};
use crate::admin::{get, problem};
use crate::harness::limits;

#[test]
fn a_ninth_metric_is_refused() {
    let mut stage = Stage::with("");
    stage.good("one");
    for number in 0..8 {
        assert_eq!(
            stage.say(&said("one", &format!("m{number}"), true)).status,
            200
        );
    }
    let detail = problem(
        &stage.say(&said("one", "more", false)),
        409,
        "too_many_metrics",
    );
    for part in ["\"more\"", "8", "m0, m1", "m7"] {
        assert!(detail.contains(part), "{detail}");
    }
    assert_eq!(stage.judged(), (1, [0; 4]));
    // One that it has is taken on.
    assert_eq!(
        stage.say(&said("one", "m3", false)).json()["success"],
        false
    );
}

#[test]
fn an_exchange_that_has_left_the_ring_is_not_found() {
    let mut stage = Stage::with(&limits("ring: 8KiB"));
    for number in 0..20 {
        stage.good(&format!("n{number}"));
    }
    let held = stage.greylag.records().len();
    assert!((1..20).contains(&held), "{held}");
    let detail = problem(&stage.say(&said("n0", "thumbs", false)), 404, "not_found");
    assert!(detail.contains("limits.ring"), "{detail}");
    assert_eq!(stage.say(&said("n19", "thumbs", false)).status, 200);
    assert_eq!(stage.judged(), (20, [0, 0, 0, 1]));
}

#[test]
fn a_hundred_thousand_judgements_are_held_within_bounds() {
    let mut stage = Stage::with(&limits("ring: 32KiB"));
    for number in 0..10 {
        stage.good(&format!("n{number}"));
    }
    let telemetry = &stage.greylag.app().shared.telemetry;
    let mut taken = 0;
    for number in 0..100_000_u32 {
        let name = format!("{}_{number}", "m".repeat(50));
        let metric = if number % 7 == 0 { "thumbs" } else { &name };
        let body = said(&format!("n{}", number % 12), metric, number % 5 == 0);
        taken += u64::from(
            telemetry
                .feedback(feedback::read(body.as_bytes()).unwrap())
                .is_ok(),
        );
    }
    assert!(taken > 10_000, "{taken}");
    let all = get(stage.greylag.app().admin, "/v1/exchanges").json();
    let all = all["exchanges"].as_array().unwrap();
    assert_eq!(all.len(), 10);
    for entry in all {
        assert_eq!(entry["feedback"].as_object().unwrap().len(), 8, "{entry}");
    }
    assert_eq!(stage.judged(), (10, [0, 0, 0, 10]));
    let page = stage.page();
    let series: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("greylag_feedback_total{"))
        .collect();
    assert!(series.len() <= 2 * 17, "{series:?}");
    assert!(series.iter().any(|line| line.contains("metric=\"other\"")));
    let sum: u64 = series
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, taken);
}
