use super::*;

fn said(values: &[&[u8]]) -> Result<Vec<u8>, Code> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(
            header::AUTHORIZATION,
            HeaderValue::from_bytes(value).unwrap(),
        );
    }
    token(&headers)
        .map(<[u8]>::to_vec)
        .map_err(|refused| refused.problem.code())
}

#[test]
fn a_token_stands_after_bearer_in_one_field() {
    let check = |values: &[&[u8]], expected: Option<&[u8]>| {
        let expected = expected.map(<[u8]>::to_vec).ok_or(Code::TokenMissing);
        assert_eq!(said(values), expected, "{values:?}");
    };
    check(&[b"Bearer abc"], Some(b"abc"));
    check(&[b"bearer  abc "], Some(b"abc"));
    check(&[b"BEARER a b"], Some(b"a b"));
    check(&[b"Bearer "], Some(b""));
    check(&[b"Bearer \xff"], Some(b"\xff"));
    check(&[b"Bearer"], None);
    check(&[b"Basic YTpi"], None);
    check(&[b"abc"], None);
    check(&[b""], None);
    check(&[], None);
    check(&[b"Bearer abc", b"Bearer abc"], None);
}

#[test]
fn what_may_change_something_needs_write_but_for_feedback() {
    let check = |method: Method, path: &str, expected: Role| {
        assert_eq!(needed(&method, path), expected, "{method} {path}");
    };
    check(Method::GET, "/v1/rules", Role::Read);
    check(Method::HEAD, "/v1/rules", Role::Read);
    check(Method::PUT, "/v1/rules", Role::Write);
    check(Method::POST, "/v1/rules", Role::Write);
    check(Method::OPTIONS, "/v1/rules", Role::Write);
    check(
        Method::from_bytes(b"get").unwrap(),
        "/v1/rules",
        Role::Write,
    );
    check(Method::POST, "/v1/feedback", Role::Read);
    check(Method::PUT, "/v1/feedback", Role::Write);
    check(Method::POST, "/v1/feedback/", Role::Write);
}
