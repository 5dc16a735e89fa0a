#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_fuzz::squidrun::check(bytes));
