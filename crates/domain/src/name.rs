//! Names, valid by construction. They are compared byte for byte: never trimmed, never case-folded.

use std::fmt;
use std::sync::Arc;

use crate::limits::{KEY_MAX_BYTES, NAME_MAX_BYTES};

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no bytes.
    #[error("must not be empty")]
    Empty,
    /// It is longer than its limit.
    #[error("must be at most {max} bytes, but has {actual}")]
    TooLong {
        /// The limit, in bytes.
        max: usize,
        /// The length found, in bytes.
        actual: usize,
    },
    /// It has a character outside its alphabet.
    #[error("may only use [A-Za-z0-9._:/-], but has {0:?}")]
    Character(char),
    /// It has a control character.
    #[error("must not have control characters, but has {0:?}")]
    Control(char),
    /// It consists of white space.
    #[error("must not be blank")]
    Blank,
}

/// Whether `character` may stand in a name of the restricted alphabet.
#[must_use]
pub fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | ':' | '/' | '-')
}

pub(crate) fn check_name(text: &str, max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > max {
        return Err(NameError::TooLong { max, actual: text.len() });
    }
    match text.chars().find(|&character| !is_name_character(character)) {
        Some(character) => Err(NameError::Character(character)),
        None => Ok(()),
    }
}

fn check_key(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > KEY_MAX_BYTES {
        return Err(NameError::TooLong { max: KEY_MAX_BYTES, actual: text.len() });
    }
    if let Some(character) = text.chars().find(|character| character.is_control()) {
        return Err(NameError::Control(character));
    }
    if text.chars().all(char::is_whitespace) {
        return Err(NameError::Blank);
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` against the limits of this kind of name.
            ///
            /// # Errors
            ///
            /// What is wrong with it.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> Result<(), NameError> = $check;
                check(text).map(|()| Self(text.into()))
            }

            /// The name as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, formatter)
            }
        }
    };
}

name!(
    /// The unit of isolation: 1 to 128 bytes of `[A-Za-z0-9._:/-]`.
    Tenant,
    |text| check_name(text, NAME_MAX_BYTES)
);
name!(
    /// The name of a write, e.g. `payments.charge`: 1 to 128 bytes of `[A-Za-z0-9._:/-]`.
    Operation,
    |text| check_name(text, NAME_MAX_BYTES)
);
name!(
    /// A downstream that is called and retried, e.g. `stripe`: 1 to 128 bytes of `[A-Za-z0-9._:/-]`.
    Dependency,
    |text| check_name(text, NAME_MAX_BYTES)
);
name!(
    /// An idempotency key: 1 to 255 bytes of UTF-8, no control characters, not blank.
    Key,
    check_key
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_their_alphabet_and_length() {
        assert!(Tenant::parse("acme-EU_1.a:b/c").is_ok());
        assert_eq!(Tenant::parse(""), Err(NameError::Empty));
        assert_eq!(Tenant::parse("a b"), Err(NameError::Character(' ')));
        assert_eq!(Operation::parse("ä"), Err(NameError::Character('ä')));
        assert!(Tenant::parse(&"a".repeat(128)).is_ok());
        let long = "a".repeat(129);
        assert_eq!(Tenant::parse(&long), Err(NameError::TooLong { max: 128, actual: 129 }));
    }

    #[test]
    fn empty_and_blank_keys_are_rejected_not_treated_as_no_key() {
        assert_eq!(Key::parse(""), Err(NameError::Empty));
        for blank in [" ", "   ", "\u{2003}\u{00a0}"] {
            assert_eq!(Key::parse(blank), Err(NameError::Blank), "{blank:?}");
        }
        for control in ["a\nb", "\t", "a\u{7f}", "\u{0}"] {
            assert!(matches!(Key::parse(control), Err(NameError::Control(_))), "{control:?}");
        }
    }

    #[test]
    fn keys_are_neither_trimmed_nor_case_folded() {
        let key = Key::parse(" Order-Ä ").expect("valid");
        assert_eq!(key.as_str(), " Order-Ä ");
        assert_ne!(key, Key::parse("order-Ä").expect("valid"));
        assert!(Key::parse(&"k".repeat(255)).is_ok());
        assert!(Key::parse(&"k".repeat(256)).is_err());
    }
}
