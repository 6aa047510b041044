//! Types of the API and their JSON schemas, written once.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A type with a JSON schema.
pub(crate) trait Described {
    /// The schema of its JSON form.
    fn schema() -> Value;
}

/// Declares a struct and its schema; comments of fields become descriptions.
macro_rules! described {
    ($(#[$outer:meta])* $seen:vis struct $name:ident {
        $($(#[doc = $doc:literal])* $field_seen:vis $field:ident: $kind:ty,)*
    }) => {
        $(#[$outer])*
        $seen struct $name { $($(#[doc = $doc])* $field_seen $field: $kind,)* }

        impl $crate::described::Described for $name {
            fn schema() -> serde_json::Value {
                $crate::described::object(&[$((
                    stringify!($field),
                    concat!($($doc),*),
                    <$kind as $crate::described::Described>::schema(),
                )),*])
            }
        }
    };
}
pub(crate) use described;

/// The schema of an object with these fields: name, description, schema.
pub(crate) fn object(fields: &[(&'static str, &'static str, Value)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, description, schema) in fields {
        let name = name.trim_start_matches("r#");
        let mut schema = schema.clone();
        if let Some(schema) = schema.as_object_mut().filter(|_| !description.is_empty()) {
            schema.insert("description".to_owned(), json!(description.trim()));
        }
        properties.insert(name.to_owned(), schema);
        required.push(name);
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

macro_rules! plain {
    ($($kind:ty => $schema:tt),* $(,)?) => {
        $(impl Described for $kind { fn schema() -> Value { json!($schema) } })*
    };
}

plain! {
    String => {"type": "string"},
    &'static str => {"type": "string"},
    bool => {"type": "boolean"},
    u32 => {"type": "integer", "minimum": 0},
    u64 => {"type": "integer", "minimum": 0},
    usize => {"type": "integer", "minimum": 0},
    i16 => {"type": "integer"},
    i64 => {"type": "integer"},
    Timestamp => {"type": "string", "format": "date-time"},
    Value => {},
}

impl<T: Described> Described for Option<T> {
    fn schema() -> Value {
        let mut schema = T::schema();
        match schema.get("type").cloned() {
            Some(kind @ Value::String(_)) => schema["type"] = json!([kind, "null"]),
            _ => return schema,
        }
        schema
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}
