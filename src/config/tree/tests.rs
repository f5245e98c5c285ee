use super::{Origin, Place, Tree};

const TEXT: &str = "\
rules:
  engines: { stable: { url: 'http://a:1' }, \"a.b\": { url: 'http://b:1' } }
  splits:
    - name: first
      weights:
        stable: 90

    -
      name: second
      sticky: [{ header: x }, client_ip]
limits: &all { body: 1B }
";

fn check(path: &str, expected: Option<Place>) {
    let expected = expected.map_or(Origin::Nowhere, Origin::File);
    assert_eq!(Tree::read(TEXT).unwrap().find(path), expected, "{path}");
}

#[test]
fn a_path_is_found_at_its_key() {
    check("rules", Some((1, 1)));
    check("rules.engines.stable", Some((2, 14)));
    check("rules.engines[\"a.b\"].url", Some((2, 54)));
    check("rules.splits[0].weights.stable", Some((6, 9)));
    check("rules.splits[1].name", Some((9, 7)));
    check("rules.splits[1].sticky[1]", Some((10, 31)));
    check("limits.body", Some((11, 16)));
}

#[test]
fn an_entry_of_a_list_is_found_where_its_value_begins() {
    check("rules.splits[0]", Some((4, 7)));
    check("rules.splits[1]", Some((9, 7)));
}

#[test]
fn what_was_left_out_is_found_at_its_parent() {
    check("rules.default_engine", Some((1, 1)));
    check("rules.splits[1].weights.stable", Some((9, 7)));
    check("workers", None);
}

#[test]
fn a_value_that_is_set_is_found_in_its_variable_and_what_it_takes_the_place_of_nowhere() {
    let mut tree = Tree::read(TEXT).unwrap();
    let mut set = |keys: &str, text: &str| {
        let keys: Vec<String> = keys.split('.').map(str::to_owned).collect();
        tree.set(&keys, text, "V").unwrap();
    };
    set("limits.body", "2B");
    set("admin.address", "x");
    set("rules.splits", "[{ name: third }]");
    let variable = Origin::Variable("V".into());
    for (path, expected) in [
        ("limits.body", variable.clone()),
        ("limits.ring", Origin::File((11, 1))),
        ("admin.address", variable.clone()),
        // Only one of its keys was set.
        ("admin.other", Origin::Nowhere),
        ("rules.splits[0].name", variable.clone()),
        ("rules.splits[1].name", variable),
    ] {
        assert_eq!(tree.find(path), expected, "{path}");
    }
}

#[test]
fn a_text_that_is_not_yaml_is_no_tree() {
    assert!(Tree::read("a: [").is_err());
}
