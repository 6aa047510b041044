//! Rows and times as parameters of tokio-postgres.

use std::error::Error;
use std::fmt;
use std::sync::LazyLock;

use bytes::{BufMut, BytesMut};
use pillarbox::model::NewColumns;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use crate::insert::moment;
use crate::time::Time;

/// A boxed parameter of a statement.
pub(super) type Param<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The parameter types of the statement `insert`.
pub(super) static ONE: LazyLock<Vec<Type>> = LazyLock::new(|| {
    let others = [Type::INT2, Type::TIMESTAMPTZ, Type::BYTEA, Type::TIMESTAMPTZ];
    others.into_iter().chain(NewColumns::text_names().map(|_| Type::TEXT)).collect()
});

/// The parameter types of the statement `insert_many`.
pub(super) static MANY: LazyLock<Vec<Type>> = LazyLock::new(|| {
    let others = [
        Type::INT2_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::INT8_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TIMESTAMPTZ,
    ];
    others.into_iter().chain(NewColumns::text_names().map(|_| Type::TEXT_ARRAY)).collect()
});

/// The parameter types of the statement `settle`.
pub(super) static SETTLE: [Type; 15] = [
    Type::TIMESTAMPTZ,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8_ARRAY,
    Type::INT2_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4_ARRAY,
    Type::BOOL_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::BOOL_ARRAY,
    Type::TIMESTAMPTZ,
];

/// The parameter types of the statements that change joins.
pub(super) static JOIN_START: [Type; 5] = [Type::TEXT, Type::TEXT, Type::INT4, Type::TEXT, Type::TIMESTAMPTZ];
pub(super) static JOIN_ATTACH: [Type; 3] = [Type::TEXT, Type::TEXT_ARRAY, Type::TIMESTAMPTZ];
pub(super) static JOIN_REPORT: [Type; 4] = [Type::TEXT, Type::TEXT, Type::INT4, Type::TIMESTAMPTZ];
pub(super) static JOIN_WAIT: [Type; 9] = [
    Type::TEXT,
    Type::BOOL,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TIMESTAMPTZ,
];
pub(super) static JOIN_CANCEL: [Type; 3] = [Type::TEXT, Type::TEXT, Type::TIMESTAMPTZ];

pub(super) fn one<'a>(row: &'a NewColumns<'a>) -> Vec<Param<'a>> {
    let mut params = vec![
        redacted(row.lane.map(|lane| lane.0)),
        redacted(Time(row.occurred_at)),
        redacted(row.payload_bytes),
        redacted(None::<Time>),
    ];
    params.extend(row.texts.iter().map(|text| redacted(text.as_deref())));
    params
}

pub(super) fn many<'a>(rows: &'a [NewColumns<'a>]) -> Vec<Param<'a>> {
    fn each<'a, T: ToSql + Sync + Send + 'a>(
        rows: &'a [NewColumns<'a>],
        column: impl Fn(&'a NewColumns<'a>) -> T,
    ) -> Param<'a> {
        redacted(rows.iter().map(column).collect::<Vec<T>>())
    }
    let mut params = vec![
        each(rows, |row| row.lane.map(|lane| lane.0)),
        each(rows, |row| Time(row.occurred_at)),
        each(rows, |row| moment(row.due).0),
        each(rows, |row| moment(row.due).1),
        each(rows, |row| moment(row.expires).0),
        each(rows, |row| moment(row.expires).1),
        each(rows, |row| row.payload_bytes),
        redacted(None::<Time>),
    ];
    let texts = 0..NewColumns::text_names().len();
    params.extend(texts.map(|text| each(rows, move |row| row.texts[text].as_deref())));
    params
}

/// Wraps a value so that the driver does not log it: at level debug it logs every parameter.
pub(super) fn redacted<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Param<'a> {
    Box::new(Redacted(value))
}

struct Redacted<T>(T);

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

type Encoded = Result<IsNull, Box<dyn Error + Sync + Send>>;

impl<T: ToSql> ToSql for Redacted<T> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Encoded {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        T::accepts(ty)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }

    to_sql_checked!();
}

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Encoded {
        out.put_i64(self.wire());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-023
    #[test]
    fn a_parameter_does_not_show_its_value() {
        assert_eq!(format!("{:?}", redacted("secret")), "_");
    }
}
