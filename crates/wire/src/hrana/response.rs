//! What a stream answers: one result for each request, in order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Value;
use crate::jetpack::ErrorBody;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineResponse {
    /// Send it with the next pipeline of this stream; `null` once the stream is closed.
    pub baton: Option<String>,
    /// Always `null`: a stream stays at this address.
    pub base_url: Option<String>,
    pub results: Vec<StreamResult>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamResult {
    Ok { response: StreamResponse },
    Error { error: Error },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamResponse {
    Close,
    Execute { result: StmtResult },
    Batch { result: BatchResult },
    Sequence,
    Describe { result: DescribeResult },
    StoreSql,
    CloseSql,
    GetAutocommit { is_autocommit: bool },
}

/// Why a statement failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SqlError")]
pub struct Error {
    pub message: String,
    /// SQLite's error code, or one of the hub's.
    pub code: String,
}

/// The result of one statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StmtResult {
    pub cols: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    pub affected_row_count: u64,
    pub last_insert_rowid: Option<String>,
    pub replication_index: Option<String>,
    pub rows_read: u64,
    pub rows_written: u64,
    pub query_duration_ms: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SqlColumn")]
pub struct Column {
    pub name: Option<String>,
    pub decltype: Option<String>,
}

/// One entry in each list for every step; both are `null` for a step that did not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SqlBatchResult")]
pub struct BatchResult {
    pub step_results: Vec<Option<StmtResult>>,
    pub step_errors: Vec<Option<Error>>,
    pub replication_index: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DescribeResult {
    pub params: Vec<Parameter>,
    pub cols: Vec<Described>,
    pub is_explain: bool,
    pub is_readonly: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SqlParameter")]
pub struct Parameter {
    /// With its sign; `null` for `?`.
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Described {
    pub name: String,
    pub decltype: Option<String>,
}

/// A pipeline that was not looked at: the hub's one shape of errors, and the code where these clients look for it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Refused {
    #[serde(flatten)]
    pub body: ErrorBody,
    pub code: String,
}

impl From<ErrorBody> for Refused {
    fn from(body: ErrorBody) -> Self {
        Refused {
            code: body.error.as_str().to_ascii_uppercase(),
            body,
        }
    }
}

impl Error {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Error {
            message: message.into(),
            code: code.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_looks_as_clients_expect_it() {
        let answer = PipelineResponse {
            baton: None,
            base_url: None,
            results: vec![
                StreamResult::Ok {
                    response: StreamResponse::Execute {
                        result: StmtResult {
                            cols: vec![Column {
                                name: Some("id".into()),
                                decltype: Some("TEXT".into()),
                            }],
                            rows: vec![vec![Value::Null]],
                            last_insert_rowid: Some("1".into()),
                            ..StmtResult::default()
                        },
                    },
                },
                StreamResult::Ok {
                    response: StreamResponse::GetAutocommit {
                        is_autocommit: true,
                    },
                },
                StreamResult::Error {
                    error: Error::new("SQLITE_ERROR", "no such table: x"),
                },
                StreamResult::Ok {
                    response: StreamResponse::Close,
                },
            ],
        };
        let expected = json!({
            "baton": null, "base_url": null,
            "results": [
                { "type": "ok", "response": { "type": "execute", "result": {
                    "cols": [{ "name": "id", "decltype": "TEXT" }],
                    "rows": [[{ "type": "null" }]],
                    "affected_row_count": 0, "last_insert_rowid": "1", "replication_index": null,
                    "rows_read": 0, "rows_written": 0, "query_duration_ms": 0.0,
                } } },
                { "type": "ok", "response": { "type": "get_autocommit", "is_autocommit": true } },
                { "type": "error", "error": { "message": "no such table: x", "code": "SQLITE_ERROR" } },
                { "type": "ok", "response": { "type": "close" } },
            ],
        });
        assert_eq!(serde_json::to_value(&answer).unwrap(), expected);
    }

    #[test]
    fn a_refused_call_has_both_shapes() {
        let body = ErrorBody::new(crate::jetpack::ErrorCode::Forbidden, "no");
        let printed = serde_json::to_value(Refused::from(body)).unwrap();
        assert_eq!(
            printed,
            json!({ "success": false, "error": "forbidden", "message": "no", "code": "FORBIDDEN" })
        );
    }
}
