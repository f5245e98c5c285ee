//! Who it is that sends spans.
//!
//! In: what the configuration and the environment say. Out: OpenTelemetry's resource. `service.instance.id` tells the pods of
//! one service apart: the pod's UID where it is known, else a random one for this process.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

use crate::config::Otlp;
use crate::telemetry::names;

/// The resource of this process.
pub(super) fn of(otlp: &Otlp) -> Resource {
    let said = |name: &str| otlp.resource.get(name).cloned();
    let pod = said(names::K8S_POD_UID).or_else(|| otlp.pod.clone());
    let instance = said(names::SERVICE_INSTANCE_ID).or_else(|| pod.clone());
    let ours = [
        (names::SERVICE_NAME, otlp.service_name.clone()),
        (names::SERVICE_VERSION, env!("CARGO_PKG_VERSION").to_owned()),
        (
            names::SERVICE_INSTANCE_ID,
            instance.unwrap_or_else(|| uuid(rand::random())),
        ),
        (names::TELEMETRY_SDK_LANGUAGE, "rust".to_owned()),
        (names::TELEMETRY_SDK_NAME, "opentelemetry".to_owned()),
    ];
    let pod = pod.map(|pod| KeyValue::new(names::K8S_POD_UID, pod));
    let ours = ours.map(|(name, value)| KeyValue::new(name, value));
    let theirs = otlp.resource.iter();
    let theirs = theirs.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    // The last of a name counts.
    Resource::builder_empty()
        .with_attributes(ours.into_iter().chain(pod).chain(theirs))
        .build()
}

// A random UUID, version 4 (RFC 9562 §5.4).
fn uuid(random: u128) -> String {
    let version = random & !(0xf << 76) | 0x4 << 76;
    let digits = format!("{:032x}", version & !(0b11 << 62) | 0b10 << 62);
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32];
    groups.map(|group| &digits[group]).join("-")
}

#[cfg(test)]
mod tests {
    use opentelemetry::Key;

    use super::*;

    fn check(otlp: &Otlp, name: &'static str, expected: Option<&str>) {
        let value = of(otlp).get(&Key::from_static_str(name));
        let value = value.map(|value| value.as_str().into_owned());
        assert_eq!(value.as_deref(), expected, "{name}");
    }

    #[test]
    fn an_instance_is_its_pod_where_that_is_known() {
        let mut otlp = Otlp {
            pod: Some("uid-1".into()),
            ..Otlp::default()
        };
        check(&otlp, "service.name", Some("greylag"));
        check(&otlp, "service.instance.id", Some("uid-1"));
        check(&otlp, "k8s.pod.uid", Some("uid-1"));
        otlp.resource.insert("k8s.pod.uid".into(), "uid-2".into());
        otlp.resource.insert("team".into(), "search".into());
        check(&otlp, "service.instance.id", Some("uid-2"));
        check(&otlp, "k8s.pod.uid", Some("uid-2"));
        check(&otlp, "team", Some("search"));
        otlp.resource
            .insert("service.instance.id".into(), "mine".into());
        check(&otlp, "service.instance.id", Some("mine"));
    }

    #[test]
    fn an_instance_without_a_pod_has_an_id_of_its_own() {
        let one = of(&Otlp::default());
        let id = one.get(&Key::from_static_str("service.instance.id"));
        let id = id.unwrap().as_str().into_owned();
        assert_eq!(id.len(), 36);
        assert_ne!(
            of(&Otlp::default()).get(&Key::from_static_str("service.instance.id")),
            Some(id.into())
        );
        check(&Otlp::default(), "k8s.pod.uid", None);
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
