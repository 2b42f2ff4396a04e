//! What a client follows: budgets and breakers, so many of them, and under names that a node takes.

use thiserror::Error;

/// The most bytes of a name.
const NAME_MAX_BYTES: usize = 128;

/// Why a budget or a breaker is not followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotFollowed {
    /// One more would be more than the client's settings allow to be followed at once.
    #[error(
        "the client follows {limit} {what}, as many as its settings allow: raise `{what}_max`, or use fewer"
    )]
    #[non_exhaustive]
    Limit {
        /// Of what: "budgets" or "breakers".
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// A name is malformed: a node would refuse it, along with all that is sent together with it.
    #[error(
        "the name of the {what} must be 1 to {NAME_MAX_BYTES} bytes of [A-Za-z0-9._:/-], but has {found}"
    )]
    #[non_exhaustive]
    Name {
        /// Of what: "tenant" or "dependency".
        what: &'static str,
        /// What it has that it must not have: its length in bytes, or a character.
        found: String,
    },
}

/// Checks the names of what is to be followed, as the contract has them.
///
/// # Errors
///
/// One is malformed.
pub(crate) fn check_names(tenant: &str, dependency: &str) -> Result<(), NotFollowed> {
    check("tenant", tenant)?;
    check("dependency", dependency)
}

fn check(what: &'static str, name: &str) -> Result<(), NotFollowed> {
    if name.is_empty() || name.len() > NAME_MAX_BYTES {
        return Err(NotFollowed::Name { what, found: format!("{} bytes", name.len()) });
    }
    match name.chars().find(|&character| !may_be_in_a_name(character)) {
        Some(character) => Err(NotFollowed::Name { what, found: format!("{character:?}") }),
        None => Ok(()),
    }
}

fn may_be_in_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._:/-".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_node_would_refuse_is_refused_with_what_is_wrong() {
        let longest = "a".repeat(128);
        for name in ["a", "acme-EU_1.a:b/c", &longest] {
            assert_eq!(check_names(name, name), Ok(()));
        }
        let long = "a".repeat(129);
        for (name, wrong) in
            [("", "0 bytes"), (&*long, "129 bytes"), ("a b", "' '"), ("ä", "'ä'"), ("a\n", "'\\n'")]
        {
            let refused = |what| Err(NotFollowed::Name { what, found: wrong.to_owned() });
            assert_eq!(check_names("acme", name), refused("dependency"));
            assert_eq!(check_names(name, "stripe"), refused("tenant"));
        }
        let text = check_names("acme", "my api").unwrap_err().to_string();
        let expected =
            "the name of the dependency must be 1 to 128 bytes of [A-Za-z0-9._:/-], but has ' '";
        assert_eq!(text, expected);
    }
}
