//! JSON in the canonical form of RFC 8785, with parts left out.

use serde_json::Value;
use thiserror::Error;

/// The largest integer that a double tells from its neighbours.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why there is no canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The arguments can't be written as JSON: a map whose names are no strings, or an error of their
    /// own.
    #[error("the arguments are no JSON: {0}")]
    NotJson(String),
    /// An integer beyond 2^53: as a JSON number it would be taken for its neighbours.
    #[error("{0} is too large for a JSON number: send it as a string")]
    IntegerTooLarge(String),
    /// A JSON pointer begins with a slash, and `~` in it is followed by `0` or `1`.
    #[error("{0:?} is no JSON pointer: write it as in /trace/id")]
    Pointer(String),
}

pub(super) fn canonical(
    arguments: &impl serde::Serialize,
    left_out: &[&str],
) -> Result<Vec<u8>, JsonError> {
    let not_json = |error: serde_json::Error| JsonError::NotJson(error.to_string());
    let mut value = serde_json::to_value(arguments).map_err(not_json)?;
    check_integers(&value)?;
    for pointer in left_out {
        leave_out(&mut value, pointer)?;
    }
    serde_json_canonicalizer::to_vec(&value).map_err(not_json)
}

fn check_integers(value: &Value) -> Result<(), JsonError> {
    match value {
        Value::Number(number) => {
            let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            match size {
                Some(size) if size > INTEGER_MAX => {
                    Err(JsonError::IntegerTooLarge(number.to_string()))
                }
                _ => Ok(()),
            }
        }
        Value::Array(items) => items.iter().try_for_each(check_integers),
        Value::Object(members) => members.values().try_for_each(check_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// Takes out what the pointer names, if it is there. An item of an array becomes null, so that those
/// behind it keep their places.
fn leave_out(value: &mut Value, pointer: &str) -> Result<(), JsonError> {
    let malformed = || JsonError::Pointer(pointer.to_owned());
    let (parent, last) = pointer.rsplit_once('/').ok_or_else(malformed)?;
    let rooted = parent.is_empty() || parent.starts_with('/');
    let escaped = |part: &str| part.is_empty() || part.starts_with(['0', '1']);
    if !rooted || !pointer.split('~').skip(1).all(|part| !part.is_empty() && escaped(part)) {
        return Err(malformed());
    }
    let name = last.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(&name);
        }
        Some(Value::Array(items)) => {
            let item = name.parse().ok().and_then(|place: usize| items.get_mut(place));
            if let Some(item) = item {
                *item = Value::Null;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value, left_out: &[&str]) -> String {
        String::from_utf8(canonical(value, left_out).unwrap()).unwrap()
    }

    #[test]
    fn the_example_of_rfc_8785_comes_out_as_it_says() {
        // Section 3.2.2 to 3.2.4.
        let input = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let expected = concat!(
            r#"{"literals":[null,true,false],"#,
            r#""numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        assert_eq!(text(&serde_json::from_str(input).unwrap(), &[]), expected);
    }

    #[test]
    fn names_are_sorted_as_rfc_8785_sorts_them() {
        // Section 3.2.3: by UTF-16 code units.
        let input = r#"{
            "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
            "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#;
        let sorted = text(&serde_json::from_str(input).unwrap(), &[]);
        let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let places: Vec<usize> = order.iter().map(|word| sorted.find(word).unwrap()).collect();
        assert!(places.is_sorted(), "{sorted}");
    }

    #[test]
    fn numbers_are_written_as_rfc_8785_writes_them() {
        // Appendix B.
        for (bits, expected) in [
            (0x0000_0000_0000_0000, "0"),
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
            assert_eq!(text(&json!(f64::from_bits(bits)), &[]), expected, "{bits:x}");
        }
    }

    #[test]
    fn integers_that_would_be_confused_are_refused_and_so_is_what_is_no_json() {
        let no_json = std::collections::BTreeMap::from([(vec![1], 1)]);
        assert!(matches!(canonical(&no_json, &[]), Err(JsonError::NotJson(_))));
        assert_eq!(text(&json!(9_007_199_254_740_991_u64), &[]), "9007199254740991");
        for large in [json!({"a": [9_007_199_254_740_993_u64]}), json!(i64::MIN), json!(u64::MAX)] {
            let error = canonical(&large, &[]).unwrap_err();
            assert!(matches!(error, JsonError::IntegerTooLarge(_)), "{error}");
        }
    }

    #[test]
    fn pointers_name_what_is_left_out() {
        let value = json!({"a": {"b": 1, "c/d": 2, "e~f": 3}, "g": [1, 2, 3]});
        assert_eq!(text(&value, &["/a"]), r#"{"g":[1,2,3]}"#);
        assert_eq!(text(&value, &["/a/c~1d", "/a/e~0f", "/g"]), r#"{"a":{"b":1}}"#);
        assert_eq!(text(&value, &["/g/1", "/a"]), r#"{"g":[1,null,3]}"#);
        assert_eq!(text(&value, &["/none/at/all", "/g/9"]), text(&value, &[]));
        for malformed in ["", "a", "a/b", "/a~", "/a~2"] {
            let error = canonical(&value, &[malformed]).unwrap_err();
            assert_eq!(error, JsonError::Pointer(malformed.to_owned()));
        }
    }
}
