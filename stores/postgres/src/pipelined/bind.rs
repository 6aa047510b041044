//! Rows and times as parameters of tokio-postgres.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use crate::insert::Values;
use crate::time::Time;

/// A boxed parameter of a statement.
pub(super) type Param<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The parameter types of the statement `insert`.
pub(super) static ONE: [Type; 18] = [
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT2,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMPTZ,
    Type::INT8,
    Type::TIMESTAMPTZ,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::BYTEA,
    Type::TIMESTAMPTZ,
];

/// The parameter types of the statement `insert_many`.
pub(super) static MANY: [Type; 18] = [
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT2_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::INT8_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TIMESTAMPTZ,
];

/// The parameter types of the statement `settle`.
pub(super) static SETTLE: [Type; 13] = [
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

pub(super) fn one<'a>(row: &'a Values<'a>) -> Vec<Param<'a>> {
    vec![
        quiet(row.event_id),
        quiet(row.event_type),
        quiet(row.aggregate_type),
        quiet(row.aggregate_id),
        quiet(row.tenant_id),
        quiet(row.lane),
        quiet(row.message_group),
        quiet(row.message_id),
        quiet(row.correlation_id),
        quiet(Time(row.occurred_at)),
        quiet(row.due.at.map(Time)),
        quiet(row.due.in_us),
        quiet(row.expires.at.map(Time)),
        quiet(row.expires.in_us),
        quiet(row.headers.as_deref()),
        quiet(row.payload),
        quiet(row.payload_bytes),
        quiet(None::<Time>),
    ]
}

pub(super) fn many<'a>(rows: &'a [Values<'a>]) -> Vec<Param<'a>> {
    fn each<'a, T: ToSql + Sync + Send + 'a>(
        rows: &'a [Values<'a>],
        column: impl Fn(&'a Values<'a>) -> T,
    ) -> Param<'a> {
        quiet(rows.iter().map(column).collect::<Vec<T>>())
    }
    vec![
        each(rows, |row| row.event_id),
        each(rows, |row| row.event_type),
        each(rows, |row| row.aggregate_type),
        each(rows, |row| row.aggregate_id),
        each(rows, |row| row.tenant_id),
        each(rows, |row| row.lane),
        each(rows, |row| row.message_group),
        each(rows, |row| row.message_id),
        each(rows, |row| row.correlation_id),
        each(rows, |row| Time(row.occurred_at)),
        each(rows, |row| row.due.at.map(Time)),
        each(rows, |row| row.due.in_us),
        each(rows, |row| row.expires.at.map(Time)),
        each(rows, |row| row.expires.in_us),
        each(rows, |row| row.headers.as_deref()),
        each(rows, |row| row.payload),
        each(rows, |row| row.payload_bytes),
        quiet(None::<Time>),
    ]
}

/// Wraps a value so that the driver does not log it: at level debug it logs every parameter.
pub(super) fn quiet<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Param<'a> {
    Box::new(Quiet(value))
}

struct Quiet<T>(T);

impl<T> fmt::Debug for Quiet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

type Encoded = Result<IsNull, Box<dyn Error + Sync + Send>>;

impl<T: ToSql> ToSql for Quiet<T> {
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
        assert_eq!(format!("{:?}", quiet("secret")), "_");
    }
}
