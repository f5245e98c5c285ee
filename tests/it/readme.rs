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
        // The line that moves traffic half and half finds what it replaces.
        let rules = serde_json::to_string(&config.rules).unwrap();
        for weight in ["\"stable\":90", "\"candidate\":10"] {
            assert!(readme.contains(weight), "README.md: found no {weight}");
            assert!(rules.contains(weight), "found no {weight} in {rules}");
        }
    }
}
