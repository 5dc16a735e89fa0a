//! What a client asks of a stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Value;
use crate::object::{object, objects, optional};

/// `POST /v2/pipeline`: requests that run in order on one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineRequest {
    /// The baton of the previous response, to continue its stream.
    #[serde(default)]
    pub baton: Option<String>,
    #[serde(deserialize_with = "objects")]
    pub requests: Vec<StreamRequest>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamRequest {
    Close,
    Execute {
        #[serde(deserialize_with = "object")]
        stmt: Stmt,
    },
    Batch {
        #[serde(deserialize_with = "object")]
        batch: Batch,
    },
    /// Any number of statements in one text; their rows are discarded.
    Sequence {
        #[serde(default)]
        sql: Option<String>,
        #[serde(default)]
        sql_id: Option<i32>,
    },
    Describe {
        #[serde(default)]
        sql: Option<String>,
        #[serde(default)]
        sql_id: Option<i32>,
    },
    StoreSql {
        sql_id: i32,
        sql: String,
    },
    CloseSql {
        sql_id: i32,
    },
    GetAutocommit,
}

/// One statement and its arguments. Its text is given here or was stored before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stmt {
    #[serde(default)]
    pub sql: Option<String>,
    #[serde(default)]
    pub sql_id: Option<i32>,
    #[serde(default, deserialize_with = "objects")]
    pub args: Vec<Value>,
    #[serde(default, deserialize_with = "objects")]
    pub named_args: Vec<NamedArg>,
    /// True by default.
    #[serde(default)]
    pub want_rows: Option<bool>,
}

/// With the sign before its name (`:`, `@`, `$`) or without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedArg {
    pub name: String,
    #[serde(deserialize_with = "object")]
    pub value: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Batch {
    #[serde(deserialize_with = "objects")]
    pub steps: Vec<Step>,
    #[serde(default)]
    pub replication_index: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    #[serde(default, deserialize_with = "optional")]
    pub condition: Option<Condition>,
    #[serde(deserialize_with = "object")]
    pub stmt: Stmt,
}

/// When a step of a batch runs. Steps are counted from 0; a condition may refer only to earlier steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Condition {
    Ok {
        step: u32,
    },
    Error {
        step: u32,
    },
    Not {
        #[serde(deserialize_with = "object")]
        cond: Box<Condition>,
    },
    And {
        #[serde(deserialize_with = "objects")]
        conds: Vec<Condition>,
    },
    Or {
        #[serde(deserialize_with = "objects")]
        conds: Vec<Condition>,
    },
    IsAutocommit,
}

impl StreamRequest {
    /// Statements that it asks for; a text that holds several counts as one.
    pub fn statements(&self) -> usize {
        match self {
            StreamRequest::Batch { batch } => batch.steps.len().max(1),
            StreamRequest::Close
            | StreamRequest::Execute { .. }
            | StreamRequest::Sequence { .. }
            | StreamRequest::Describe { .. }
            | StreamRequest::StoreSql { .. }
            | StreamRequest::CloseSql { .. }
            | StreamRequest::GetAutocommit => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hrana::parse;

    #[test]
    fn structures_are_objects_and_types_are_words() {
        for (request, fits) in [
            (r#"{"type":"execute","stmt":{"sql":"SELECT 1"}}"#, true),
            (
                r#"{"type":"execute","stmt":["SELECT 1",null,[],[],true]}"#,
                false,
            ),
            (r#"{"type":"batch","batch":[[],null]}"#, false),
            (r#"{"type":"batch","batch":{"steps":[[null,{}]]}}"#, false),
            (
                r#"{"type":"execute","stmt":{"args":[["text","x"]]}}"#,
                false,
            ),
            (
                r#"{"type":"execute","stmt":{"named_args":[["a",{"type":"null"}]]}}"#,
                false,
            ),
            (r#"["close"]"#, false),
            (r#"{"type":0}"#, false),
            (r#"{"type":"sequence","sql":"SELECT '\"type\":0'"}"#, true),
        ] {
            let text = format!(r#"{{"requests":[{request}]}}"#);
            let read = parse::<PipelineRequest>(text.as_bytes());
            assert_eq!(read.is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn what_the_client_in_the_wild_sends_is_read() {
        let text = br#"{"requests":[
            {"type":"store_sql","sql_id":0,"sql":"SELECT 1"},
            {"type":"execute","stmt":{"sql":"SELECT ?","args":[{"type":"text","value":"x"}],"named_args":[],"want_rows":true}},
            {"type":"batch","batch":{"steps":[
                {"stmt":{"sql":"BEGIN IMMEDIATE","args":[],"named_args":[],"want_rows":false}},
                {"condition":{"type":"and","conds":[{"type":"ok","step":0},{"type":"not","cond":{"type":"is_autocommit"}}]},
                 "stmt":{"sql_id":0,"args":[],"named_args":[{"name":"a","value":{"type":"null"}}],"want_rows":true}}]}},
            {"type":"sequence","sql":"SELECT 1; SELECT 2"},
            {"type":"describe","sql_id":0},
            {"type":"close_sql","sql_id":0},
            {"type":"get_autocommit"},
            {"type":"close"}]}"#;
        let request: PipelineRequest = parse(text).unwrap();
        assert_eq!(request.baton, None);
        assert_eq!(request.requests.len(), 8);
        let statements = request.requests.iter().map(StreamRequest::statements);
        assert_eq!(statements.sum::<usize>(), 9);
        let StreamRequest::Batch { batch } = &request.requests[2] else {
            panic!("{:?}", request.requests[2]);
        };
        assert_eq!(batch.steps[1].stmt.sql_id, Some(0));
        assert!(matches!(
            &batch.steps[1].condition,
            Some(Condition::And { conds }) if conds.len() == 2
        ));
    }

    #[test]
    fn what_is_no_pipeline_is_refused() {
        for text in [
            r#"{}"#,
            r#"{"requests":{}}"#,
            r#"{"requests":[{"type":"drop"}]}"#,
            r#"{"requests":[{"type":"execute"}]}"#,
            r#"{"requests":[{"type":"store_sql","sql":"x"}]}"#,
            r#"{"requests":[],"baton":1}"#,
            r#"{"requests":[{"type":"batch","batch":{"steps":[{"condition":{"type":"maybe"},"stmt":{}}]}}]}"#,
        ] {
            assert!(parse::<PipelineRequest>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
