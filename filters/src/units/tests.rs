use std::time::Duration;

use proptest::prelude::*;

use super::{Period, Share, Size};
use crate::draw::Draw;

fn check<T: std::str::FromStr + ToString>(text: &str, printed: Option<&str>) {
    let found = text.parse::<T>().ok().map(|value| value.to_string());
    assert_eq!(found.as_deref(), printed, "{text:?}");
}

#[test]
fn a_share_is_per_cent_with_up_to_four_decimals() {
    check::<Share>("10%", Some("10%"));
    check::<Share>("0%", Some("0%"));
    check::<Share>("100%", Some("100%"));
    check::<Share>("100.0000%", Some("100%"));
    check::<Share>("0.0001%", Some("0.0001%"));
    check::<Share>("33.3333%", Some("33.3333%"));
    check::<Share>("00.50%", Some("0.5%"));
    for bad in [
        "",
        "%",
        "10",
        "0.1",
        "100.0001%",
        "101%",
        "-1%",
        "+1%",
        ".5%",
        "5.%",
        "1e1%",
        "10 %",
        " 10%",
        "0.00001%",
        "010%",
        "000%",
        "1000%",
        "١%",
    ] {
        check::<Share>(bad, None);
    }
}

#[test]
fn a_duration_is_numbers_with_units() {
    check::<Period>("250ms", Some("250ms"));
    check::<Period>("1m30s", Some("1m30s"));
    check::<Period>("90s", Some("1m30s"));
    check::<Period>("0s", Some("0s"));
    check::<Period>("48h", Some("2d"));
    check::<Period>("1500us1ns", Some("1ms500us1ns"));
    for bad in [
        "",
        "0",
        "30",
        "s",
        "1",
        "1m30",
        "1.5s",
        "-1s",
        "1 s",
        "1S",
        "1M",
        "1month",
        "1µs",
        "18446744073709551616s",
        "18446744073709551615d",
        "18446744073709551615s1s",
    ] {
        check::<Period>(bad, None);
    }
}

#[test]
fn a_size_is_a_number_with_a_unit() {
    check::<Size>("64KiB", Some("64KiB"));
    check::<Size>("1024KiB", Some("1MiB"));
    check::<Size>("512B", Some("512B"));
    check::<Size>("1000kB", Some("1MB"));
    check::<Size>("0GiB", Some("0B"));
    for bad in [
        "",
        "64",
        "KiB",
        "64K",
        "64kb",
        "64 KiB",
        "1.5MiB",
        "-1B",
        "16777216TiB",
    ] {
        check::<Size>(bad, None);
    }
}

#[test]
fn a_missing_unit_is_named() {
    fn message<T: serde::de::DeserializeOwned + std::fmt::Debug>(json: &str) -> String {
        let text = serde_json::from_str::<T>(json).unwrap_err().to_string();
        text.split(" at line").next().unwrap().to_owned()
    }
    let duration = r#"a duration needs a unit, such as "250ms" or "1m30s""#;
    assert_eq!(
        message::<Period>("30"),
        format!("{duration}; found the number 30")
    );
    assert_eq!(
        message::<Period>("-3"),
        format!("{duration}; found the number -3")
    );
    assert_eq!(
        message::<Period>("0.5"),
        format!("{duration}; found the number 0.5")
    );
    assert_eq!(
        message::<Period>("\"30\""),
        format!("{duration}; found \"30\"")
    );
    assert_eq!(
        message::<Period>("null"),
        format!("{duration}; found nothing")
    );
    assert_eq!(message::<Period>("true"), format!("{duration}; found true"));
    assert_eq!(message::<Period>("[]"), format!("{duration}; found a list"));
    assert_eq!(message::<Period>("{}"), format!("{duration}; found a map"));
    assert!(message::<Share>("0.1").ends_with("; found the number 0.1"));
    assert!(message::<Size>("65536").ends_with("; found the number 65536"));
    let long = format!("\"{}\"", "x".repeat(10_000));
    assert!(message::<Size>(&long).len() < 300);
}

#[test]
fn a_share_hits_as_often_as_it_says() {
    let draws = |share: Share| {
        (0..100_000_u32)
            .filter(|n| share.hits(Draw::new(7, "rule", &n.to_le_bytes())))
            .count()
    };
    assert_eq!(draws(Share::NONE), 0);
    assert_eq!(draws(Share::ALL), 100_000);
    // 3 standard deviations of 100,000 draws at 10 %: 3 · √(100000 · 0.1 · 0.9) = 285
    assert!(draws(Share::percent(10)).abs_diff(10_000) < 285);
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same(millionths in 0_u32..=1_000_000, seconds: u64, nanos in 0_u32..1_000_000_000, bytes: u64) {
        let share: Share = format!("{}.{:04}%", millionths / 10_000, millionths % 10_000).parse().unwrap();
        prop_assert_eq!(share.to_string().parse(), Ok(share));
        let period = Period::from(Duration::new(seconds, nanos));
        prop_assert_eq!(period.to_string().parse(), Ok(period));
        let size = Size::new(bytes);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
    }

    #[test]
    fn no_text_panics(text: String) {
        let _ = (text.parse::<Share>(), text.parse::<Period>(), text.parse::<Size>());
    }
}
