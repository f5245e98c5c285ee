//! The route of a request, by its path.

/// What a request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
    /// Anything else.
    Other,
}

impl Route {
    /// The route of a path without its query.
    pub fn of(path: &str) -> Route {
        match path {
            "/v1/chat/completions" => Route::ChatCompletions,
            "/v1/completions" => Route::Completions,
            _ => Route::Other,
        }
    }

    /// Whether the request is inference, so that it may be split.
    pub fn is_inference(self) -> bool {
        match self {
            Route::ChatCompletions | Route::Completions => true,
            Route::Other => false,
        }
    }
}
