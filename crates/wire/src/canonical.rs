//! Canonical JSON (RFC 8785): one text for one value, so that two parties can sign the same bytes.

use serde_json::{Map, Number, Value};

/// Prints a value in canonical form.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    print(value, &mut out);
    out
}

fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&print_number(number)),
        Value::String(text) => print_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                print(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => print_object(members, out),
    }
}

fn print_object(members: &Map<String, Value>, out: &mut String) {
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    // By UTF-16 code units: not the order of UTF-8 bytes beyond the basic plane.
    sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    out.push('{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        print_string(name, out);
        out.push(':');
        print(value, out);
    }
    out.push('}');
}

fn print_string(text: &str, out: &mut String) {
    // serde_json escapes exactly what RFC 8785 asks for, in the same spelling.
    out.push_str(&serde_json::to_string(text).expect("a string is always printable"));
}

/// As ECMAScript prints a number: all of them are doubles.
fn print_number(number: &Number) -> String {
    let value = number
        .as_f64()
        .expect("without arbitrary precision every number is a double");
    if value == 0.0 {
        return "0".to_owned();
    }
    let sign = if value < 0.0 { "-" } else { "" };
    // serde_json prints the shortest digits that read back to the same double, ties to even, as
    // ECMAScript does; the standard library breaks ties the other way.
    let (digits, point) = take_apart(&Value::from(value.abs()).to_string());
    format!("{sign}{}", place_point(&digits, point))
}

/// Significant digits, and how many of them stand before the decimal point.
fn take_apart(printed: &str) -> (String, i32) {
    let (mantissa, exponent) = printed.split_once('e').unwrap_or((printed, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let before = |text: &str| i32::try_from(text.len()).expect("a double prints short");
    let exponent: i32 = exponent.parse().expect("the exponent of a double is small");
    let point = before(whole) - (before(&all) - before(digits)) + exponent;
    (digits.trim_end_matches('0').to_owned(), point)
}

/// Puts the decimal point after `point` digits, in the way of ECMAScript's Number::toString.
fn place_point(digits: &str, point: i32) -> String {
    let len = i32::try_from(digits.len()).expect("a double has at most 17 digits");
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let (head, tail) = digits.split_at(usize::try_from(point.clamp(0, len)).unwrap_or(0));
    match point {
        1..=21 if len <= point => format!("{digits}{}", zeros(point - len)),
        1..=21 => format!("{head}.{tail}"),
        -5..=0 => format!("0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let fraction = if rest.is_empty() {
                String::new()
            } else {
                format!(".{rest}")
            };
            format!("{first}{fraction}e{:+}", point - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_print_as_in_appendix_b() {
        for (bits, text) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(canonical(&json!(f64::from_bits(bits))), text, "{bits:016x}");
        }
    }

    #[test]
    fn the_example_of_section_3_2_2_prints_as_given() {
        let given = r#"{
          "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
          "literals": [null, true, false]
        }"#;
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(canonical(&serde_json::from_str(given).unwrap()), expected);
    }

    #[test]
    fn members_are_sorted_by_utf16_units_as_in_section_3_2_3() {
        let given = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",
            "1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
        let printed = canonical(&serde_json::from_str(given).unwrap());
        let order = [
            "Carriage Return",
            "One",
            "Control",
            "Latin",
            "Euro Sign",
            "Emoji",
            "Hebrew",
        ];
        let places: Vec<usize> = order
            .iter()
            .map(|name| printed.find(name).unwrap())
            .collect();
        assert!(places.is_sorted(), "{printed}");
    }

    #[test]
    fn whole_numbers_beyond_a_double_are_rounded_to_one() {
        assert_eq!(canonical(&json!(u64::MAX)), "18446744073709552000");
        assert_eq!(canonical(&json!(-42)), "-42");
    }

    proptest! {
        #[test]
        fn a_printed_number_reads_back_to_the_same_double(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let printed = canonical(&json!(value));
            prop_assert_eq!(printed.parse::<f64>().unwrap(), value);
        }

        #[test]
        fn printing_twice_changes_nothing(text in ".{0,30}", number: f64, flag: bool) {
            prop_assume!(number.is_finite());
            let value = json!({ "b": text.clone(), text: [number, flag], "a": { "z": 1, "y": null } });
            let once = canonical(&value);
            let again = canonical(&serde_json::from_str(&once).unwrap());
            prop_assert_eq!(once, again);
        }
    }
}
