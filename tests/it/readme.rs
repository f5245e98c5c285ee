//! What the README tells people to copy works.

use greylag::config::Config;

#[test]
fn the_configuration_in_the_readme_can_be_used() {
    let readme = include_str!("../../README.md");
    let samples: Vec<&str> = readme
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(sample, _)| sample)
        .collect();
    assert!(!samples.is_empty(), "README.md: found no ```yaml");
    for sample in samples {
        let config =
            Config::read(sample, "README.md").unwrap_or_else(|fault| panic!("{fault}\n{sample}"));
        // The lines that move traffic half and half, and back, name the split and its engines.
        let split = &config.rules.splits[0];
        let name = split.name.as_str();
        let (stable, candidate) = ("stable", "candidate");
        assert!(split.weights.at(stable).is_some() && split.weights.at(candidate).is_some());
        for line in [
            format!("ctl split {name} {stable}=50 {candidate}=50"),
            format!("ctl lift weights:{name}"),
            format!("/v1/splits/{name}/weights"),
        ] {
            assert!(readme.contains(&line), "README.md: found no {line:?}");
        }
    }
}
