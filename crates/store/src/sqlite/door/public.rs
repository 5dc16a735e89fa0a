//! What strangers may use beside the public tables ([`crate::table`]): pragmas, functions. Nothing else is.

/// What else may be read: the schema, lists inside of values, and pragmas in the shape of tables.
#[rustfmt::skip]
pub(super) const READABLE: &[&str] = &[
    "sqlite_master", "sqlite_schema", "json_each", "json_tree", "pragma_table_info", "pragma_table_xinfo",
    "pragma_table_list", "pragma_index_list", "pragma_index_info", "pragma_index_xinfo", "pragma_foreign_key_list",
];

/// Pragmas about a table or an index.
#[rustfmt::skip]
pub(super) const PRAGMAS_ABOUT: &[&str] = &[
    "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list",
];
/// Pragmas that may be asked for.
#[rustfmt::skip]
pub(super) const PRAGMAS_READ: &[&str] = &[
    "user_version", "schema_version", "application_id", "data_version", "encoding", "journal_mode", "foreign_keys",
    "busy_timeout", "synchronous", "cache_size", "page_size",
];
/// Pragmas that clients set at their start. They are told that it is done; nothing is.
#[rustfmt::skip]
pub(super) const PRAGMAS_IGNORED: &[&str] = &[
    "journal_mode", "foreign_keys", "busy_timeout", "synchronous", "cache_size", "temp_store", "mmap_size",
    "wal_autocheckpoint",
];

/// In alphabetical order. Left out are those that reach outside of the tables, and those whose time grows faster than
/// their arguments.
#[rustfmt::skip]
pub(super) const FUNCTIONS: &[&str] = &[
    "->", "->>", "abs", "avg", "changes", "char", "coalesce", "concat", "concat_ws", "count", "cume_dist",
    "current_date", "current_time", "current_timestamp", "date", "datetime", "dense_rank", "first_value", "format",
    "group_concat", "hex", "if", "ifnull", "iif", "instr", "json", "json_array", "json_array_length",
    "json_error_position", "json_extract", "json_group_array", "json_group_object", "json_insert", "json_object",
    "json_quote", "json_remove", "json_replace", "json_set", "json_type", "json_valid", "jsonb", "julianday", "lag",
    "last_insert_rowid", "last_value", "lead", "length", "like", "likelihood", "likely", "lower", "ltrim", "max",
    "min", "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "printf", "quote", "random", "randomblob",
    "rank", "replace", "round", "row_number", "rtrim", "sign", "sqlite_version", "strftime", "string_agg", "substr",
    "substring", "sum", "time", "timediff", "total", "total_changes", "trim", "typeof", "unicode",
    "unixepoch", "unlikely", "upper", "zeroblob",
];

/// What our triggers touch beside the public tables.
pub(super) const TRIGGERS_TOUCH: &[&str] = &[
    "sb_gone_agent",
    "sb_hand",
    "sb_head",
    "sb_record",
    "sb_sql_agent",
    "sb_task_transition",
    "sb_was",
];
/// What they call beside the functions for everyone: on texts that they have measured before.
pub(super) const TRIGGERS_CALL: &[&str] = &["glob", crate::sqlite::triggers::IS_STEWARD];
