//! Renders the lists of columns that statements select.

/// Renders a list of columns: heavy columns with `guarded`, under their own names,
/// and all others with `light`.
pub fn selected(
    columns: &str,
    heavy: &[&str],
    light: impl Fn(&str) -> String,
    guarded: impl Fn(&str) -> String,
) -> String {
    let write = |column: &str| match heavy.contains(&column) {
        true => format!("{} AS {column}", guarded(column)),
        false => light(column),
    };
    columns.split(", ").map(write).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_columns_keep_their_names() {
        let list =
            selected("id, payload", &["payload"], |c| format!("e.{c}"), |c| format!("nullif({c}, '')"));
        assert_eq!(list, "e.id, nullif(payload, '') AS payload");
    }
}
