//! Triton's paths, which have the model's name in them.
//!
//! In: a path without its query. Out: its route, or the name of its model.

use super::Route;

/// The route of `/v2/models/{model}[/versions/{version}]/{what}`, if it asks for inference.
pub(super) fn route(path: &str) -> Option<Route> {
    match parts(path)?.1 {
        "infer" => Some(Route::TritonInfer),
        "generate" => Some(Route::TritonGenerate),
        "generate_stream" => Some(Route::TritonGenerateStream),
        _ => None,
    }
}

/// The model that the path of a Triton route names, as it stands there: percent-encoding is not undone.
pub fn model(path: &str) -> Option<&str> {
    route(path)?;
    Some(parts(path)?.0)
}

/// The model's name, and what follows it and its version.
fn parts(path: &str) -> Option<(&str, &str)> {
    let (model, rest) = path.strip_prefix("/v2/models/")?.split_once('/')?;
    let what = match rest.strip_prefix("versions/") {
        Some(versioned) => {
            let (version, what) = versioned.split_once('/')?;
            let digits = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
            digits.then_some(what)?
        }
        None => rest,
    };
    (!model.is_empty()).then_some((model, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_names_its_model_and_what_is_asked_of_it() {
        let check = |path: &str, expected: Route, named: &str| {
            assert_eq!(Route::of(path), expected, "{path}");
            assert_eq!(model(path), Some(named), "{path}");
        };
        check("/v2/models/affine/infer", Route::TritonInfer, "affine");
        check(
            "/v2/models/affine/versions/1/infer",
            Route::TritonInfer,
            "affine",
        );
        check("/v2/models/a b/generate", Route::TritonGenerate, "a b");
        check(
            "/v2/models/words/versions/12/generate_stream",
            Route::TritonGenerateStream,
            "words",
        );
        check("/v2/models/a%2Fb/infer", Route::TritonInfer, "a%2Fb");
        check("/v2/models/versions/infer", Route::TritonInfer, "versions");
    }

    #[test]
    fn other_paths_of_triton_are_no_inference() {
        for path in [
            "/v2",
            "/v2/models",
            "/v2/models/",
            "/v2/models/a",
            "/v2/models//infer",
            "/v2/models/infer",
            "/v2/models/a/",
            "/v2/models/a/infer/",
            "/v2/models/a//infer",
            "/v2/models/a/b/infer",
            "/v2/models/a/inferx",
            "/v2/models/a/Infer",
            "/v2/models/a/versions/infer",
            "/v2/models/a/versions//infer",
            "/v2/models/a/versions/x/infer",
            "/v2/models/a/versions/1/2/infer",
            "/v2/models/a/versions/1",
            "/v2/models/a/config",
            "/v2/models/a/stats",
            "/v2/models/a/ready",
            "/v2/repository/index",
            "/v1/models/a/infer",
        ] {
            assert_eq!(Route::of(path), Route::Other, "{path}");
            assert_eq!(model(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_model_and_version_lead_to_the_route(named in "[^/]{1,20}", version in prop::option::of(any::<u64>())) {
            let version = version.map_or(String::new(), |version| format!("/versions/{version}"));
            let path = format!("/v2/models/{named}{version}/infer");
            prop_assert_eq!(Route::of(&path), Route::TritonInfer);
            prop_assert_eq!(model(&path), Some(&*named));
        }
    }
}
