//! Pipelines and cursors of libSQL's clients.

use switchboard_wire::hrana::{CursorRequest, PipelineRequest, parse};

use crate::bodies::again;

pub fn check(bytes: &[u8]) {
    if let Some(pipeline) = again(bytes, |bytes| parse::<PipelineRequest>(bytes)) {
        for request in pipeline.requests {
            assert!((1..=bytes.len()).contains(&request.statements()));
        }
    }
    again(bytes, |bytes| parse::<CursorRequest>(bytes));
}
