//! The forms in which answers speak of tokens, in one table.
//!
//! In: a dialect, or the name of one. Out: what sets it apart. A new dialect is a file with a [`Grammar`] and a line of the
//! table; nothing else matches on them, but for `eye`, which knows what a request alone can tell, and `recognise`.

mod audio;
mod chat;
mod completions;
mod llamacpp;
mod messages;
mod openai;
mod pooling;
mod responses;
mod sglang;
mod tgi;
mod triton;

use super::answer::Answer;
use super::checks::Checks;
use super::past::Past;
use crate::json::Fault;
use crate::refusal::Family;

pub(super) use messages::Counts;
pub(super) use openai::Opening;

macro_rules! dialects {
    ($($(#[$doc:meta])* $name:ident is $grammar:path,)*) => {
        /// The form in which an answer speaks of tokens.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Dialect { $($(#[$doc])* $name,)* }

        impl Dialect {
            /// All of them.
            pub const ALL: &[Dialect] = &[$(Dialect::$name),*];

            pub(super) fn grammar(self) -> &'static Grammar {
                match self { $(Dialect::$name => &$grammar,)* }
            }
        }
    };
}

dialects! {
    /// OpenAI's `/v1/chat/completions`.
    Chat is chat::GRAMMAR,
    /// OpenAI's `/v1/completions`.
    Completions is completions::GRAMMAR,
    /// OpenAI's `/v1/responses`.
    Responses is responses::GRAMMAR,
    /// OpenAI's `/v1/embeddings`, and what resembles it: prompts are counted, and nothing is generated.
    Embeddings is pooling::EMBEDDINGS,
    /// vLLM's `/v1/score`.
    Score is pooling::SCORE,
    /// `/v1/rerank`, as Jina, Cohere and vLLM have it.
    Rerank is pooling::RERANK,
    /// Any JSON value: whether it is whole, and whether it is an error. For services that are no engines.
    Json is pooling::JSON,
    /// OpenAI's `/v1/audio/*`, as vLLM serves it too.
    Audio is audio::GRAMMAR,
    /// Anthropic's `/v1/messages`.
    Messages is messages::GRAMMAR,
    /// SGLang's `/generate`, and TGI's of the same path.
    Generate is sglang::GRAMMAR,
    /// TGI's `/generate_stream`.
    GenerateStream is tgi::GRAMMAR,
    /// llama.cpp's `/completion`.
    LlamaCompletion is llamacpp::GRAMMAR,
    /// Triton's `infer`: one JSON value, and tensors after it if the head says so.
    TritonInfer is triton::INFER,
    /// Triton's `generate` and `generate_stream`. The stream has no terminator but the end of its body.
    TritonGenerate is triton::GENERATE,
    /// gRPC's `ModelInfer`: one message. It is read as a whole answer.
    ModelInfer is triton::MODEL_INFER,
}

/// What sets a dialect apart.
#[derive(Debug)]
pub(super) struct Grammar {
    /// Its name in rules and on the command line.
    pub(super) name: &'static str,
    /// What is done, in the word of OpenTelemetry's conventions where they have one, else one of the same kind.
    pub(super) operation: &'static str,
    /// Reads an event of a stream, or a whole answer.
    pub(super) read: Read,
    /// Tells the checks what an event of a stream, or a whole answer, says.
    pub(super) speak: Speak,
    /// What a whole answer is made of.
    pub(super) body: Body,
    /// Nothing but the end of its body ends a stream.
    pub(super) ends_with_body: bool,
    /// Streams say how many tokens they have if `stream_options.include_usage` asks them to.
    pub(super) takes_usage_option: bool,
    /// The shape in which its callers expect a refusal.
    pub(super) family: Family,
}

/// Reads one JSON value.
type Read = for<'a> fn(&'a [u8], &mut Past) -> Result<Answer<'a>, Fault>;

/// Reads one JSON value once more, for its text.
type Speak = fn(&[u8], &mut Checks) -> Result<(), Fault>;

/// Nothing that could be judged, for or against.
fn silent(_json: &[u8], checks: &mut Checks) -> Result<(), Fault> {
    checks.lose_text();
    Ok(())
}

/// What a whole answer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// One JSON value.
    Json,
    /// One JSON value, or text or sound, as the caller asked.
    JsonOrMedia,
    /// One message of gRPC.
    Message,
}

impl Dialect {
    /// The name in rules and on the command line.
    pub fn name(self) -> &'static str {
        self.grammar().name
    }

    /// What is done: `gen_ai.operation.name` where OpenTelemetry's conventions have a word for it.
    pub fn operation(self) -> &'static str {
        self.grammar().operation
    }

    /// The dialect of that name.
    pub fn named(name: &str) -> Option<Dialect> {
        let mut all = Dialect::ALL.iter().copied();
        all.find(|dialect| dialect.name() == name)
    }

    /// Whether streams say how many tokens they have if `stream_options.include_usage` asks them to.
    pub fn takes_usage_option(self) -> bool {
        self.grammar().takes_usage_option
    }

    /// The shape in which its callers expect a refusal.
    pub fn family(self) -> Family {
        self.grammar().family
    }

    /// Whether rules may give it to a path: what is no message of gRPC.
    pub fn is_declarable(self) -> bool {
        self.grammar().body != Body::Message
    }

    /// Reads one event's data, or a whole answer.
    #[inline]
    pub(crate) fn read<'a>(self, json: &'a [u8], past: &mut Past) -> Result<Answer<'a>, Fault> {
        (self.grammar().read)(json, past)
    }
}
