//! The OpenAPI document, made from the list of routes.

use serde_json::{Map, Value, json};

use crate::roles::AdminRole;
use crate::routes::{ROUTES, Route};

/// The OpenAPI document of the API.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pillarbox admin API",
            "version": "1",
            "description": "Paths are relative to where the router is mounted. `x-role` is the least role that may call a route.",
        },
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
    })
}

fn operation(route: &Route) -> Value {
    let answer = match route.answer {
        Some(schema) => json!({"application/json": {"schema": schema()}}),
        None => json!({"text/plain": {"schema": {"type": "string"}}}),
    };
    let security = if route.role == AdminRole::Anyone { json!([]) } else { json!([{"token": []}]) };
    let mut operation = json!({
        "summary": route.summary,
        "x-role": route.role.as_str(),
        "security": security,
        "parameters": parameters(route),
        "responses": {
            "200": {"description": "The answer.", "content": answer},
            "default": {"description": "A refusal, with what to do about it.", "content": {"application/json": {"schema": {
                "type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"], "additionalProperties": false,
            }}}},
        },
    });
    if let Some(body) = route.body {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": optional(body())}}});
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let in_query = route.query.iter().map(
        |param| json!({"name": param.0, "in": "query", "description": param.1, "schema": {"type": "string"}}),
    );
    in_path.chain(in_query).collect()
}

/// The schema of a body: every field has a default.
fn optional(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
    }
    schema
}
