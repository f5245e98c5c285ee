//! Tensors, and their raw form.
//!
//! In: values, or their bytes. Out: the other. Little-endian, as KServe's binary extension has them; a text is its length
//! in four bytes and the text. Never more elements than there are bytes.

use serde_json::Value;

use super::Fault;

/// Values with a name and a shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) data: Data,
}

/// The values of a tensor, of the types that the models know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Fp32(Vec<f32>),
    Bytes(Vec<Vec<u8>>),
}

impl Data {
    pub(crate) fn datatype(&self) -> &'static str {
        match self {
            Data::Bool(_) => "BOOL",
            Data::Int32(_) => "INT32",
            Data::Fp32(_) => "FP32",
            Data::Bytes(_) => "BYTES",
        }
    }

    /// Elements.
    pub(crate) fn len(&self) -> usize {
        match self {
            Data::Bool(values) => values.len(),
            Data::Int32(values) => values.len(),
            Data::Fp32(values) => values.len(),
            Data::Bytes(values) => values.len(),
        }
    }

    /// The first element as a number.
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Data::Bool(values) => values.first().map(|value| i64::from(*value)),
            Data::Int32(values) => values.first().map(|value| i64::from(*value)),
            Data::Fp32(_) | Data::Bytes(_) => None,
        }
    }

    /// The first element as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Data::Bytes(values) => values.first().map_or(String::new(), |text| {
                String::from_utf8_lossy(text).into_owned()
            }),
            Data::Bool(_) | Data::Int32(_) | Data::Fp32(_) => String::new(),
        }
    }

    /// Twice each number and one more; other types as they are.
    pub(crate) fn affine(&self) -> Data {
        match self {
            Data::Fp32(values) => Data::Fp32(values.iter().map(|x| 2.0 * x + 1.0).collect()),
            Data::Bool(_) | Data::Int32(_) | Data::Bytes(_) => self.clone(),
        }
    }

    /// Reads the raw form.
    pub(crate) fn raw(datatype: &str, bytes: &[u8]) -> Result<Data, Fault> {
        let whole = |size: usize| {
            if bytes.len().is_multiple_of(size) {
                Ok(())
            } else {
                let length = bytes.len();
                Err(Fault::invalid(format!(
                    "unexpected total byte size {length} for a tensor of '{datatype}'"
                )))
            }
        };
        Ok(match datatype {
            "BOOL" => Data::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
            "INT32" => {
                whole(4)?;
                Data::Int32(
                    bytes
                        .as_chunks()
                        .0
                        .iter()
                        .map(|four| i32::from_le_bytes(*four))
                        .collect(),
                )
            }
            "FP32" => {
                whole(4)?;
                Data::Fp32(
                    bytes
                        .as_chunks()
                        .0
                        .iter()
                        .map(|four| f32::from_le_bytes(*four))
                        .collect(),
                )
            }
            "BYTES" => Data::Bytes(texts(bytes).ok_or_else(|| {
                Fault::invalid("incomplete string length or string data in a tensor of 'BYTES'")
            })?),
            other => return Err(unknown(other)),
        })
    }

    /// Writes the raw form.
    pub(crate) fn to_raw(&self) -> Vec<u8> {
        match self {
            Data::Bool(values) => values.iter().map(|value| u8::from(*value)).collect(),
            Data::Int32(values) => values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
            Data::Fp32(values) => values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
            Data::Bytes(values) => {
                let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX);
                let parts = values
                    .iter()
                    .flat_map(|text| [length(text).to_le_bytes().to_vec(), text.clone()]);
                parts.flatten().collect()
            }
        }
    }

    /// Reads JSON: one value, or lists of them in any depth.
    pub(crate) fn json(datatype: &str, value: &Value) -> Result<Data, Fault> {
        let mut flat = Vec::new();
        flatten(value, &mut flat);
        let wrong = || {
            Fault::new(
                super::Kind::Internal,
                format!("Unable to parse 'data': expected values of '{datatype}'"),
            )
        };
        Ok(match datatype {
            "BOOL" => Data::Bool(read(&flat, Value::as_bool).ok_or_else(wrong)?),
            "INT32" => {
                let number = |value: &Value| value.as_i64()?.try_into().ok();
                Data::Int32(read(&flat, number).ok_or_else(wrong)?)
            }
            "FP32" => Data::Fp32(read(&flat, single).ok_or_else(wrong)?),
            "BYTES" => {
                let text = |value: &Value| value.as_str().map(|text| text.as_bytes().to_vec());
                Data::Bytes(read(&flat, text).ok_or_else(wrong)?)
            }
            other => return Err(unknown(other)),
        })
    }

    /// Writes a flat list.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        match self {
            Data::Bool(values) => values.iter().map(|value| (*value).into()).collect(),
            Data::Int32(values) => values.iter().map(|value| (*value).into()).collect(),
            Data::Fp32(values) => values.iter().map(|value| (*value).into()).collect(),
            Data::Bytes(values) => values
                .iter()
                .map(|text| String::from_utf8_lossy(text).into())
                .collect(),
        }
    }
}

fn unknown(datatype: &str) -> Fault {
    Fault::invalid(format!("the simulator knows no tensors of '{datatype}'"))
}

fn flatten<'a>(value: &'a Value, flat: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| flatten(item, flat)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            flat.push(value);
        }
    }
}

fn read<T>(flat: &[&Value], one: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    flat.iter().map(|value| one(value)).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "FP32 is what the tensor holds; the digits beyond are lost in Triton too"
)]
fn single(value: &Value) -> Option<f32> {
    value.as_f64().map(|number| number as f32)
}

fn texts(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut texts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (text, rest) = rest.split_at_checked(length)?;
        texts.push(text.to_vec());
        bytes = rest;
    }
    bytes.is_empty().then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_raw_form_round_trips(numbers: Vec<i32>, texts: Vec<Vec<u8>>, flags: Vec<bool>) {
            for data in [Data::Int32(numbers), Data::Bytes(texts), Data::Bool(flags)] {
                prop_assert_eq!(Data::raw(data.datatype(), &data.to_raw()), Ok(data));
            }
        }

        #[test]
        fn no_bytes_break_the_reader(bytes: Vec<u8>) {
            for datatype in ["BOOL", "INT32", "FP32", "BYTES", "FP16"] {
                if let Ok(data) = Data::raw(datatype, &bytes) {
                    prop_assert_eq!(data.to_raw().len(), bytes.len());
                }
            }
        }
    }
}
