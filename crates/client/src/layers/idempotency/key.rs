//! The key as a request carries it, and as Semel gets it.

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Item, Parser};
use sha2::{Digest, Sha256};

use super::problem::Problem;

/// The header, or the entry of the metadata.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How many hexadecimal digits stand for a caller.
const CALLER_DIGITS: usize = 32;

/// How a key may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// As a string of RFC 9651 only: `"8e03978e"`.
    Quoted,
    /// Also without the quotes.
    QuotedOrBare,
}

/// The key of a request, if it has one.
pub(super) fn read(headers: &HeaderMap, notation: Notation) -> Result<Option<String>, Problem> {
    let invalid = |why: &str| Problem::KeyInvalid(format!("Idempotency-Key: {why}"));
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(invalid("there are two of it: send one"));
    }
    let bytes = value.as_bytes();
    let bare = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
    let key = if notation == Notation::QuotedOrBare && bytes.iter().all(bare) {
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        quoted(bytes)
            .ok_or_else(|| invalid(r#"write it as a string in quotes: "8e03978e-40d5""#))?
    };
    if key.trim().is_empty() {
        return Err(invalid("it is empty"));
    }
    Ok(Some(key))
}

/// A string of RFC 9651. Parameters are allowed, and mean nothing.
fn quoted(bytes: &[u8]) -> Option<String> {
    match Parser::new(bytes).parse::<Item>().ok()?.bare_item {
        BareItem::String(key) => Some(key.as_str().to_owned()),
        _ => None,
    }
}

/// The key of one caller: two callers' equal keys differ. The caller's name does not leave the process.
pub(super) fn of_caller(caller: &str, key: &str) -> String {
    let mut digits = hex::encode(Sha256::digest(caller));
    digits.truncate(CALLER_DIGITS);
    format!("{digits}:{key}")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(values: &[&str], notation: Notation) -> Result<Option<String>, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        read(&headers, notation)
    }

    #[test]
    fn a_key_is_a_string_of_structured_fields() {
        for (value, key) in [
            (r#""8e03978e-40d5-43e8""#, "8e03978e-40d5-43e8"),
            (r#" "a";version=2 "#, "a"),
            (r#""say \"once\" \\ twice""#, r#"say "once" \ twice"#),
            (r#"" a ""#, " a "),
        ] {
            for notation in [Notation::Quoted, Notation::QuotedOrBare] {
                assert_eq!(of(&[value], notation), Ok(Some(key.to_owned())), "{value}");
            }
        }
        assert_eq!(of(&[], Notation::Quoted), Ok(None));
    }

    #[test]
    fn a_bare_key_is_taken_where_that_is_said() {
        let key = "8e03978e-40d5";
        assert_eq!(of(&[key], Notation::QuotedOrBare), Ok(Some(key.to_owned())));
        assert!(of(&[key], Notation::Quoted).is_err());
    }

    #[test]
    fn what_is_no_key_is_never_taken_for_none() {
        let refused: [&[&str]; 9] = [
            &[""],
            &[r#""""#],
            &[r#""  ""#],
            &[r#""open"#],
            &[r#""a", "b""#],
            &["a b"],
            &["a,b"],
            &[r#""é""#],
            &[r#""a""#, r#""a""#],
        ];
        for values in refused {
            for notation in [Notation::Quoted, Notation::QuotedOrBare] {
                let read = of(values, notation);
                assert!(matches!(read, Err(Problem::KeyInvalid(_))), "{values:?}: {read:?}");
            }
        }
    }

    #[test]
    fn equal_keys_of_two_callers_differ() {
        let key = of_caller("alice", "1");
        assert_ne!(key, of_caller("bob", "1"));
        assert_ne!(key, of_caller("alic", "e1"));
        assert_eq!(key, of_caller("alice", "1"));
        assert!(key.ends_with(":1") && !key.contains("alice"), "{key}");
    }
}
