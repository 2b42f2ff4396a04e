//! The name of a retry: the same for the same, and another one for whatever is not.

#![allow(clippy::expect_used, reason = "what is made here is valid")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use semel_domain::downstream::Downstream;
use semel_domain::name::{Dependency, Tenant};
use semel_domain::retry::Token;

fn of(tenant: &str, dependency: &str) -> Downstream {
    Downstream {
        tenant: Tenant::parse(tenant).expect("valid"),
        dependency: Dependency::parse(dependency).expect("valid"),
    }
}

#[test]
fn whoever_asks_again_is_given_the_same_token() {
    let token = Token::of(&of("acme", "stripe"), b"r-1", 1);
    assert_eq!(token, Token::of(&of("acme", "stripe"), b"r-1", 1));
}

#[test]
fn each_part_makes_another_token() {
    let all = [
        Token::of(&of("acme", "stripe"), b"r-1", 1),
        Token::of(&of("acm", "stripe"), b"r-1", 1),
        Token::of(&of("acme", "stripe2"), b"r-1", 1),
        Token::of(&of("acme", "stripe"), b"r-2", 1),
        Token::of(&of("acme", "stripe"), b"r-1", 2),
        Token::of(&of("acme", "stripe"), b"r-1", 257),
        Token::of(&of("acme", "stripe"), b"r-1", u32::MAX),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

/// The same bytes side by side, parted in other places.
#[test]
fn parts_are_framed_so_that_no_two_flow_into_one_another() {
    let all = [
        Token::of(&of("a", "bc"), b"d", 1),
        Token::of(&of("ab", "c"), b"d", 1),
        Token::of(&of("a", "b"), b"cd", 1),
        Token::of(&of("a", "bcd"), b"", 1),
        // The attempt's bytes at the end of the id.
        Token::of(&of("a", "bc"), b"d\x01\0\0\0", 0),
        Token::of(&of("a", "bc"), b"", u32::from_le_bytes(*b"d\x01\0\0")),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

/// Nodes of two versions grant the same token for the same attempt.
#[test]
fn a_token_stays_what_it_is() {
    let token = Token::of(&of("acme", "stripe"), b"order-42", 1);
    assert_eq!(hex::encode(token.0), "f3bd6f73001a975e3f4a279954de28b7");
}

proptest! {
    #[test]
    fn tokens_are_the_same_for_the_same_question_only(
        one in ("[ab]{1,3}", "[ab]{1,3}", "[ab]{0,3}", 0..3_u32),
        other in ("[ab]{1,3}", "[ab]{1,3}", "[ab]{0,3}", 0..3_u32),
    ) {
        let token = |(tenant, dependency, id, attempt): &(String, String, String, u32)| {
            Token::of(&of(tenant, dependency), id.as_bytes(), *attempt)
        };
        prop_assert_eq!(token(&one) == token(&other), one == other);
    }
}
