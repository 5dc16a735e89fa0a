//! Numbers that may carry a fraction are printed without one where there is none, as JavaScript does.

use serde::Serializer;

/// Largest magnitude below which every whole `f64` is exact.
pub(crate) const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// For `serialize_with`: `40` rather than `40.0`.
pub(crate) fn plain<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// The same for an optional number.
pub(crate) fn plain_opt<S: Serializer>(
    value: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => plain(value, serializer),
        None => serializer.serialize_none(),
    }
}
