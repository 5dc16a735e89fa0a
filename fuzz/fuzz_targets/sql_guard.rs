#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_fuzz::sql_guard::check(bytes));
