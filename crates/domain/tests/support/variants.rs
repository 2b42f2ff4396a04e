//! The names of all answers, so that a test can tell whether it met every one.
//!
//! An answer that is new to the domain does not compile here until it is listed, and what is listed
//! but never met fails the tests that ask for all.

use std::collections::BTreeSet;

use semel_domain::keys::{
    ClaimOutcome, CompleteOutcome, ForgetOutcome, Outcome, ReconcileOutcome, ReleaseOutcome,
    RenewOutcome, ReplayOutcome,
};

macro_rules! variants {
    ($($rule:ident($outcome:ident): $($variant:ident)*;)*) => {
        /// Every answer, as `Rule::Variant`, in order of precedence.
        const ALL: &[&str] = &[
            $($(concat!(stringify!($rule), "::", stringify!($variant)),)*)*
            "Get::None", "Get::Some", "Expire::kept", "Expire::removed",
        ];

        /// The name of an answer.
        pub(crate) fn name(outcome: &Outcome) -> &'static str {
            match outcome {
                $($(Outcome::$rule($outcome::$variant { .. }) => {
                    concat!(stringify!($rule), "::", stringify!($variant))
                })*)*
                Outcome::Get(None) => "Get::None",
                Outcome::Get(Some(_)) => "Get::Some",
                Outcome::Expire { removed: false } => "Expire::kept",
                Outcome::Expire { removed: true } => "Expire::removed",
            }
        }
    };
}

variants! {
    Claim(ClaimOutcome):
        PayloadMismatch FingerprintIncomparable Expired Replay Indeterminate Granted InProgress
        Released FirstSentInvalid;
    Complete(CompleteOutcome): Unknown Expired Fenced Conflict Accepted;
    Renew(RenewOutcome): Unknown Fenced Renewed;
    Release(ReleaseOutcome): Unknown Fenced Released;
    Replay(ReplayOutcome): Unknown Expired Replay InProgress Unanswered;
    Reconcile(ReconcileOutcome): Unknown Expired Fenced Conflict ClaimLive Settled;
    Forget(ForgetOutcome): Unknown NotCompleted Forgotten;
}

/// The answers whose name begins with `prefix` and that are not among `met`.
pub(crate) fn missed<'a>(
    prefix: &str,
    met: impl IntoIterator<Item = &'a Outcome>,
) -> BTreeSet<&'static str> {
    let met: BTreeSet<_> = met.into_iter().map(name).collect();
    ALL.iter().copied().filter(|name| name.starts_with(prefix) && !met.contains(name)).collect()
}
