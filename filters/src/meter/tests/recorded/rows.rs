//! What the recorded answers hold.

/// Name, events, token events; chunks in which the first token, first text and last token came; usage as
/// `prompt+completion` (a dash where one is not said), finish reasons, end (`body`: there is no terminator but the body's end), error as `code type`.
pub(super) type Row = (
    &'static str,
    u64,
    u64,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
pub(super) const STREAMS: &[Row] = &[
    ("vllm/chat-stream-abort", 13, 12, Some(1), Some(1), Some(12), "", "", "cut", ""),
    ("vllm/chat-stream-continuous-without-include", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-engine-killed", 110, 107, Some(1), Some(1), Some(107), "", "", "done", "500 InternalServerError"),
    ("vllm/chat-stream-fast", 66, 64, Some(1), Some(1), Some(64), "", "length:1", "done", ""),
    ("vllm/chat-stream-load-metrics-text", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-logprobs", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-max1", 3, 1, Some(1), Some(1), Some(1), "", "length:1", "done", ""),
    ("vllm/chat-stream-server-sigterm-hang", 9, 8, Some(1), Some(1), Some(8), "", "", "cut", ""),
    ("vllm/chat-stream-stop", 11, 7, Some(1), Some(1), Some(7), "20+8", "stop:1", "done", ""),
    ("vllm/chat-stream-token-ids", 6, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("vllm/chat-stream-tool-named", 21, 17, Some(1), None, Some(17), "212+54", "stop:1", "done", ""),
    ("vllm/chat-stream-usage-continuous", 11, 8, Some(1), Some(1), Some(8), "20+8", "length:1", "done", ""),
    // By eye: a role event, 8 with content " 6" to " tenant", one with usage alone, [DONE].
    ("vllm/chat-stream-usage", 11, 8, Some(1), Some(1), Some(8), "20+8", "length:1", "done", ""),
    ("vllm/chat-stream", 26, 24, Some(1), Some(1), Some(24), "", "length:1", "done", ""),
    ("vllm/completion-stream-logprobs", 5, 4, Some(0), Some(0), Some(3), "", "length:1", "done", ""),
    ("vllm/completion-stream-usage-continuous", 8, 6, Some(0), Some(0), Some(5), "3+6", "length:1", "done", ""),
    // By eye: 6 with text, one with usage alone, [DONE].
    ("vllm/completion-stream-usage", 8, 6, Some(0), Some(0), Some(5), "3+6", "length:1", "done", ""),
    ("vllm/completion-stream", 17, 16, Some(0), Some(0), Some(15), "", "length:1", "done", ""),
    ("sglang/chat-stream-abort", 12, 11, Some(1), Some(1), Some(11), "", "", "cut", ""),
    ("sglang/chat-stream-fast", 67, 64, Some(1), Some(1), Some(64), "", "length:1", "done", ""),
    ("sglang/chat-stream-logprobs", 7, 4, Some(1), Some(1), Some(4), "", "length:1", "done", ""),
    ("sglang/chat-stream-n2", 18, 12, Some(1), Some(1), Some(13), "20+12 reasoning 0", "length:2", "done", ""),
    ("sglang/chat-stream-server-sigterm", 57, 54, Some(1), Some(1), Some(54), "", "length:1", "done", ""),
    ("sglang/chat-stream-stop", 7, 3, Some(1), Some(1), Some(3), "20+3 reasoning 0", "stop:1", "done", ""),
    // By eye: a role event, 8 with content, an empty delta with the finish reason, one with usage alone, [DONE].
    ("sglang/chat-stream-usage", 12, 8, Some(1), Some(1), Some(8), "20+8 reasoning 0", "length:1", "done", ""),
    ("sglang/chat-stream", 27, 24, Some(1), Some(1), Some(24), "", "length:1", "done", ""),
    ("sglang/completion-stream-two-prompts", 10, 8, Some(0), Some(0), Some(7), "5+8 reasoning 0", "length:2", "done", ""),
    ("sglang/completion-stream-usage-continuous", 8, 6, Some(0), Some(0), Some(5), "3+6 reasoning 0", "length:1", "done", ""),
    // By eye: 6 with text, one with usage alone, [DONE].
    ("sglang/completion-stream-usage", 8, 6, Some(0), Some(0), Some(5), "3+6 reasoning 0", "length:1", "done", ""),
    ("sglang/completion-stream", 17, 16, Some(0), Some(0), Some(15), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-abort", 12, 11, Some(0), Some(0), Some(10), "", "", "cut", ""),
    ("llamacpp/chat-stream-fast", 67, 64, Some(0), Some(0), Some(63), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-json-schema", 17, 14, Some(0), Some(0), Some(13), "", "stop:1", "done", ""),
    ("llamacpp/chat-stream-logprobs", 6, 3, Some(0), Some(0), Some(2), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-n2", 17, 12, Some(0), Some(0), Some(12), "", "length:2", "done", ""),
    ("llamacpp/chat-stream-server-sigterm", 14, 13, Some(0), Some(0), Some(12), "", "", "cut", ""),
    ("llamacpp/chat-stream-timings", 9, 4, Some(2), Some(2), Some(5), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-tool-required", 83, 80, Some(0), Some(0), Some(79), "", "length:1", "done", ""),
    ("llamacpp/chat-stream-usage-continuous", 8, 4, Some(0), Some(0), Some(3), "24+4 cached 23", "length:1", "done", ""),
    // By eye: a role event with null content in one chunk with the first token, 15 more, an empty delta, [DONE].
    ("llamacpp/chat-stream", 19, 16, Some(0), Some(0), Some(15), "", "length:1", "done", ""),
    // By eye: 8 with text, one with empty text, the finish reason and the usage, [DONE].
    ("llamacpp/completion-stream", 10, 9, Some(0), Some(0), Some(8), "4+8 cached 3", "length:1", "done", ""),
    ("triton/generate-stream-abort", 16, 16, Some(0), Some(0), Some(15), "", "", "body", ""),
    // By eye: "the ", "quick " and "brown ", each an event in a chunk of its own, then the last chunk.
    ("triton/generate-stream-accept-sse", 3, 3, Some(0), Some(0), Some(2), "", "", "body", ""),
    // By eye: nothing but the error, under status 400.
    ("triton/generate-stream-error-first", 1, 0, None, None, None, "", "", "body", " "),
    ("triton/generate-stream-error-missing-input", 8, 8, Some(0), Some(0), Some(7), "", "", "body", ""),
    ("triton/generate-stream-not-streaming", 1, 1, Some(0), Some(0), Some(0), "", "", "body", ""),
    ("triton/generate-stream-server-sigterm", 60, 60, Some(0), Some(0), Some(59), "", "", "body", ""),
    ("triton/generate-stream-zero-responses", 0, 0, None, None, None, "", "", "body", ""),
    ("triton/generate-stream", 22, 22, Some(0), Some(0), Some(21), "", "", "body", ""),
    ("vllm/messages-stream", 13, 8, Some(2), Some(2), Some(9), "20+8", "length:1", "done", ""),
    ("sglang/messages-stream", 13, 8, Some(2), Some(2), Some(9), "20+8", "length:1", "done", ""),
    ("llamacpp/messages-stream", 11, 6, Some(0), Some(0), Some(5), "24+6 cached 23", "length:1", "done", ""),
    ("llamacpp/native-completion-stream", 7, 6, Some(0), Some(0), Some(5), "4+6 cached 3", "length:1", "done", ""),
    ("llamacpp/responses-stream", 14, 6, Some(0), Some(0), Some(5), "24+6 cached 23", "stop:1", "done", ""),
];

/// Name, usage, finish reasons, model (empty where the answer names none).
#[rustfmt::skip]
pub(super) const WHOLE: &[(&str, &str, &str, &str)] = &[
    ("vllm/chat-extra-field", "16+2", "length:1", "tiny"),
    ("vllm/chat-load-metrics-bad", "20+4", "length:1", "tiny"),
    ("vllm/chat-load-metrics-json", "20+4", "length:1", "tiny"),
    ("vllm/chat-load-metrics-text", "20+4", "length:1", "tiny"),
    ("vllm/chat-n2", "20+12", "length:2", "tiny"),
    ("vllm/chat-tool-named", "212+54", "stop:1", "tiny"),
    ("vllm/chat", "20+12", "length:1", "tiny"),
    ("vllm/completion-load-metrics-text", "3+4", "length:1", "tiny"),
    ("vllm/completion-token-ids-prompt", "3+4", "length:1", "tiny"),
    ("vllm/completion-two-prompts", "5+8", "length:2", "tiny"),
    ("vllm/completion", "3+12", "length:1", "tiny"),
    ("vllm/error-missing-model", "16+2", "length:1", "tiny"),
    ("vllm/flags.chat", "28+4 cached 0", "length:1", "tiny"),
    ("sglang/chat-rid", "16+2 reasoning 0", "length:1", "tiny"),
    ("sglang/chat-tool-named", "228+60 reasoning 0", "length:1", "tiny"),
    ("sglang/chat", "20+12 reasoning 0", "length:1", "tiny"),
    ("sglang/completion-two-prompts", "5+8 reasoning 0", "length:2", "tiny"),
    ("sglang/completion", "3+12 reasoning 0", "length:1", "tiny"),
    ("sglang/error-max-tokens-zero", "16+0 reasoning 0", "length:1", "tiny"),
    ("sglang/error-missing-model", "16+2 reasoning 0", "length:1", "default"),
    ("sglang/error-unknown-model", "16+494 reasoning 0", "length:1", "nosuch"),
    ("llamacpp/chat-n2", "24+6 cached 23", "length:2", "tiny"),
    ("llamacpp/chat", "24+12 cached 0", "length:1", "tiny"),
    ("llamacpp/completion", "4+12 cached 0", "length:1", "tiny"),
    ("llamacpp/unknown-model", "18+2 cached 5", "length:1", "tiny"),
    ("triton/generate", "", "", "words"),
    ("triton/generate-id-and-parameters", "", "", "words"),
    ("triton/generate-not-decoupled", "", "", "affine"),
    ("triton/infer", "", "", "affine"),
    ("triton/infer-binary-output", "", "", "affine"),
    ("triton/infer-version-path", "", "", "affine"),
    ("vllm/embed.embeddings-two-base64", "4+-", "", "tiny-embed"),
    ("vllm/embed.embeddings", "2+-", "", "tiny-embed"),
    ("vllm/messages", "20+8", "length:1", "tiny"),
    ("vllm/responses", "20+8 cached 0 reasoning 0", "length:1", "tiny"),
    ("sglang/completion-while-draining", "1+4 reasoning 0", "length:1", "tiny"),
    ("sglang/messages", "20+8", "length:1", "tiny"),
    ("sglang/native-generate", "3+6 cached 0 reasoning 0", "length:1", ""),
    ("llamacpp/embed.embeddings-two-base64", "5+-", "", "tiny-embed"),
    ("llamacpp/embed.embeddings", "3+-", "", "tiny-embed"),
    ("llamacpp/messages", "24+6 cached 23", "length:1", "tiny"),
];

/// An error under status 200, which Triton gives where a model does not answer exactly once.
pub(super) const FAILED: &[&str] = &[
    "triton/generate-error-many-responses",
    "triton/generate-error-missing-input",
    "triton/generate-error-zero-responses",
];
