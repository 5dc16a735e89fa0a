//! PostgreSQL's rows as [`Columns`], and columns of many rows as arrays.
//!
//! PostgreSQL's text cannot hold U+0000, which callers may send. It is written as U+001A and a `0`, and U+001A itself
//! as U+001A and a `1`, so that what comes back is what went in.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::Error;
use crate::columns::Values;
use crate::rows::{Columns, Unreadable};

const ESCAPE: char = '\u{1a}';

impl Columns for Row {
    type Error = Error;

    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, Error> {
        let found: Option<&str> = self.try_get(column).map_err(unexpected)?;
        Ok(found.map(unescape))
    }

    fn int(&self, column: usize) -> Result<Option<i64>, Error> {
        self.try_get(column).map_err(unexpected)
    }

    fn real(&self, column: usize) -> Result<Option<f64>, Error> {
        self.try_get(column).map_err(unexpected)
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        self.try_get(column).map_err(unexpected)
    }
}

/// The columns of a row from a number on.
pub(super) struct Behind<'a>(pub &'a Row, pub usize);

impl Columns for Behind<'_> {
    type Error = Error;

    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, Error> {
        Columns::text(self.0, self.1 + column)
    }

    fn int(&self, column: usize) -> Result<Option<i64>, Error> {
        Columns::int(self.0, self.1 + column)
    }

    fn real(&self, column: usize) -> Result<Option<f64>, Error> {
        Columns::real(self.0, self.1 + column)
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        Columns::bytes(self.0, self.1 + column)
    }
}

fn unexpected(error: tokio_postgres::Error) -> Error {
    Error::Corrupt(format!("a column has an unexpected type: {error}"))
}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        Error::Unavailable(error.to_string())
    }
}

pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        plain.push(match char {
            ESCAPE if chars.next() == Some('0') => '\0',
            other => other,
        });
    }
    Cow::Owned(plain)
}

/// One column of many rows, in PostgreSQL's binary form of an array.
#[derive(Debug)]
pub(crate) struct Array {
    element: Type,
    len: i32,
    has_null: bool,
    elements: BytesMut,
}

impl Array {
    fn of(element: Type) -> Array {
        Array {
            element,
            len: 0,
            has_null: false,
            elements: BytesMut::new(),
        }
    }

    pub fn array_type(&self) -> Type {
        match self.element {
            Type::INT8 => Type::INT8_ARRAY,
            Type::FLOAT8 => Type::FLOAT8_ARRAY,
            Type::BYTEA => Type::BYTEA_ARRAY,
            _ => Type::TEXT_ARRAY,
        }
    }

    fn push(&mut self, bytes: Option<&[u8]>) {
        self.len += 1;
        match bytes {
            Some(bytes) => {
                let len = i32::try_from(bytes.len()).expect("a value is bounded well below 2 GiB");
                self.elements.put_i32(len);
                self.elements.put_slice(bytes);
            }
            None => {
                self.has_null = true;
                self.elements.put_i32(-1);
            }
        }
    }
}

impl ToSql for Array {
    fn to_sql(
        &self,
        _type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let dimensions = i32::from(self.len > 0);
        out.put_i32(dimensions);
        out.put_i32(self.has_null.into());
        out.put_u32(self.element.oid());
        if dimensions > 0 {
            out.put_i32(self.len);
            out.put_i32(1);
            out.put_slice(&self.elements);
        }
        Ok(IsNull::No)
    }

    fn accepts(_type: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Rows for one statement, gathered value by value and sent column by column.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    columns: Vec<Array>,
    at: usize,
    rows: usize,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn columns(self) -> Vec<Array> {
        self.columns
    }

    fn next(&mut self, element: Type) -> &mut Array {
        if self.columns.len() == self.at {
            self.columns.push(Array::of(element));
        }
        self.at += 1;
        &mut self.columns[self.at - 1]
    }

    pub fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self {
        let value = value.into().map(escape);
        self.next(Type::TEXT)
            .push(value.as_ref().map(|text| text.as_bytes()));
        self
    }

    pub fn int(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        let value = value.into().map(i64::to_be_bytes);
        self.next(Type::INT8).push(value.as_ref().map(|it| &it[..]));
        self
    }

    pub fn count(&mut self, value: u64) -> &mut Self {
        self.int(signed(value))
    }

    pub fn real(&mut self, value: impl Into<Option<f64>>) -> &mut Self {
        let value = value.into().map(f64::to_be_bytes);
        self.next(Type::FLOAT8)
            .push(value.as_ref().map(|it| &it[..]));
        self
    }

    pub fn bytes<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) -> &mut Self {
        self.next(Type::BYTEA).push(value.into());
        self
    }

    /// Ends a row.
    pub fn end(&mut self) {
        debug_assert_eq!(self.at, self.columns.len(), "rows of one width");
        self.at = 0;
        self.rows += 1;
    }
}

impl Values for Batch {
    fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self {
        Batch::text(self, value)
    }

    fn int(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        Batch::int(self, value)
    }

    fn real(&mut self, value: impl Into<Option<f64>>) -> &mut Self {
        Batch::real(self, value)
    }

    fn bytes<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) -> &mut Self {
        Batch::bytes(self, value)
    }
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_went_in() {
        for text in [
            "",
            "plain",
            "a\0b",
            "\u{1a}",
            "\u{1a}0\0\u{1a}1",
            "ä\0ö\u{1a}",
        ] {
            let kept = escape(text);
            assert!(!kept.contains('\0'), "{text:?}");
            assert_eq!(unescape(&kept), text);
        }
    }
}
