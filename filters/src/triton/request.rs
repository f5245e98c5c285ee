//! What is particular to a request of Triton's.
//!
//! In: the members of a JSON request, or a `ModelInferRequest`. Out: a [`Request`]. Texts longer than
//! [`facts::LONGEST`](crate::facts::LONGEST) count as absent.

use crate::facts::LONGEST;
use crate::json::{self, Cursor, Kind, Text};
use crate::protobuf::{Fault, Fields, Value};

/// What a request to Triton says beside its tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its `id`, which the answers repeat; absent when empty.
    pub id: Option<Box<str>>,
    /// The sequence it belongs to, which must stay with one engine.
    pub sequence: Option<SequenceId>,
    /// It is the first of its sequence.
    pub starts_sequence: bool,
    /// It is the last of its sequence.
    pub ends_sequence: bool,
    /// A tensor lies in memory that client and engine share: no other engine can read the request.
    pub uses_shared_memory: bool,
    /// The end of its answers is to be marked even by an empty answer (`triton_enable_empty_final_response`).
    pub wants_final: bool,
}

/// What names a sequence. 0 and the empty text name none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SequenceId {
    /// An integer; a negative one as its two's complement, as Triton takes it.
    Number(u64),
    /// A text.
    Text(Box<str>),
}

impl SequenceId {
    fn number(number: u64) -> Option<SequenceId> {
        (number != 0).then_some(SequenceId::Number(number))
    }
}

/// The parameters of a request that are read.
#[derive(Clone, Copy)]
enum Parameter {
    Sequence,
    Start,
    End,
    Final,
}

impl Parameter {
    const ALL: [(&'static str, Parameter); 4] = [
        ("sequence_id", Parameter::Sequence),
        ("sequence_start", Parameter::Start),
        ("sequence_end", Parameter::End),
        ("triton_enable_empty_final_response", Parameter::Final),
    ];

    /// The parameter whose name the key `is`.
    fn named(is: impl Fn(&str) -> bool) -> Option<Parameter> {
        let mut all = Parameter::ALL.into_iter();
        all.find(|(name, _)| is(name))
            .map(|(_, parameter)| parameter)
    }
}

const SHARED_MEMORY: &str = "shared_memory_region";

/// Reads one member of the outer object into `request`, the cursor at its value, and gives the value's kind. Of duplicate
/// keys the last one counts. Generate takes parameters beside its inputs too, so they are looked for in both places.
pub(crate) fn json_member(
    request: &mut Request,
    cursor: &mut Cursor<'_>,
    key: Text<'_>,
) -> Result<Kind, json::Fault> {
    let kind = cursor.kind()?;
    if key.is("id") {
        request.id = json_text(cursor)?;
    } else if key.is("parameters") && kind == Kind::Object {
        cursor.object(|cursor, key| json_parameter(request, cursor, key))?;
    } else if (key.is("inputs") || key.is("outputs")) && kind == Kind::Array {
        cursor.array(|cursor| {
            request.uses_shared_memory |= json_tensor(cursor)?;
            Ok(())
        })?;
    } else {
        json_parameter(request, cursor, key)?;
    }
    Ok(kind)
}

fn json_parameter(
    request: &mut Request,
    cursor: &mut Cursor<'_>,
    key: Text<'_>,
) -> Result<(), json::Fault> {
    match Parameter::named(|name| key.is(name)) {
        Some(Parameter::Sequence) if cursor.kind()? == Kind::String => {
            request.sequence = json_text(cursor)?.map(SequenceId::Text);
        }
        Some(Parameter::Sequence) => {
            request.sequence = cursor.count()?.and_then(SequenceId::number);
        }
        Some(Parameter::Start) => request.starts_sequence = cursor.is_true()?,
        Some(Parameter::End) => request.ends_sequence = cursor.is_true()?,
        Some(Parameter::Final) => request.wants_final = cursor.is_true()?,
        None => {
            cursor.skip()?;
        }
    }
    Ok(())
}

/// A text that is not empty; nothing for a value of another kind.
fn json_text(cursor: &mut Cursor<'_>) -> Result<Option<Box<str>>, json::Fault> {
    if cursor.kind()? != Kind::String {
        cursor.skip()?;
        return Ok(None);
    }
    let text = cursor.string()?.to_text(LONGEST);
    Ok(text.filter(|text| !text.is_empty()))
}

/// Whether a tensor's parameters name a region of shared memory.
fn json_tensor(cursor: &mut Cursor<'_>) -> Result<bool, json::Fault> {
    let mut shared = false;
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok(false);
    }
    cursor.object(|cursor, key| {
        if !key.is("parameters") || cursor.kind()? != Kind::Object {
            cursor.skip()?;
            return Ok(());
        }
        cursor.object(|cursor, key| {
            shared |= key.is(SHARED_MEMORY);
            cursor.skip().map(drop)
        })
    })?;
    Ok(shared)
}

/// A `ModelInferRequest`, borrowed where it lies.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// The name of its model; empty when absent.
    pub(crate) model: &'a [u8],
    /// Its id, however long; empty when absent.
    pub(crate) id: &'a [u8],
    /// What else it says.
    pub(crate) request: Request,
}

/// Reads a `ModelInferRequest`.
pub(crate) fn message(bytes: &[u8]) -> Result<Asked<'_>, Fault> {
    let mut asked = Asked {
        model: &[],
        id: &[],
        request: Request::default(),
    };
    let request = &mut asked.request;
    for field in Fields::of(bytes) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Bytes(model)) => asked.model = model,
            (3, Value::Bytes(id)) => asked.id = id,
            (4, Value::Bytes(entry)) => parameter(request, entry)?,
            // An input's parameters are its field 4, a requested output's its field 2.
            (5, Value::Bytes(tensor)) => request.uses_shared_memory |= shared(tensor, 4)?,
            (6, Value::Bytes(tensor)) => request.uses_shared_memory |= shared(tensor, 2)?,
            _ => {}
        }
    }
    request.id = text(asked.id);
    Ok(asked)
}

fn parameter(request: &mut Request, entry: &[u8]) -> Result<(), Fault> {
    let (key, value) = map_entry(entry)?;
    let Some(parameter) = Parameter::named(|name| key == name.as_bytes()) else {
        return Ok(());
    };
    // InferParameter: bool_param = 1, int64_param = 2, string_param = 3, double_param = 4, uint64_param = 5.
    let (mut flag, mut sequence) = (false, None);
    for field in Fields::of(value) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Varint(value)) => flag = value != 0,
            (2 | 5, Value::Varint(value)) => sequence = SequenceId::number(value),
            (3, Value::Bytes(value)) => sequence = text(value).map(SequenceId::Text),
            _ => {}
        }
    }
    match parameter {
        Parameter::Sequence => request.sequence = sequence,
        Parameter::Start => request.starts_sequence = flag,
        Parameter::End => request.ends_sequence = flag,
        Parameter::Final => request.wants_final = flag,
    }
    Ok(())
}

/// Whether a tensor has the parameter that names a region of shared memory. `parameters`: the field they are in.
fn shared(tensor: &[u8], parameters: u32) -> Result<bool, Fault> {
    let mut shared = false;
    for field in Fields::of(tensor) {
        let field = field?;
        if let (true, Value::Bytes(entry)) = (field.number == parameters, field.value) {
            shared |= map_entry(entry)?.0 == SHARED_MEMORY.as_bytes();
        }
    }
    Ok(shared)
}

/// The key and the value of an entry of a map from texts to messages.
pub(super) fn map_entry(entry: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let (mut key, mut value) = (&[][..], &[][..]);
    for field in Fields::of(entry) {
        let field = field?;
        match (field.number, field.value) {
            (1, Value::Bytes(bytes)) => key = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((key, value))
}

/// A text of a message that is not empty and not too long.
pub(crate) fn text(bytes: &[u8]) -> Option<Box<str>> {
    let text = std::str::from_utf8(bytes).ok()?;
    (1..=LONGEST).contains(&text.len()).then(|| text.into())
}
