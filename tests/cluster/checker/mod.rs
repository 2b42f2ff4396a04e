//! What histories must have kept.
//!
//! A checker knows only what clients sent and were told, and when. A call happened at one moment between
//! its sending and its answer; one whose answer is unknown, at any moment since, or never. A promise is
//! said to be broken only if no such moments keep it. It shares no code with the rules, and each promise
//! has a planted history here that breaks it.
//!
//! - `keys`: claims, fences, leases, doubts, answers and erasures
//! - `budgets`: the bound of the retries, tokens and deposits
//! - `breakers`: permits, generations, and who is told of them

pub(crate) mod breakers;
pub(crate) mod budgets;
pub(crate) mod keys;

/// What was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// The calls on a key seem to happen one after the other.
    Linearizable,
    /// A fence is given to one owner, and once.
    OneFence,
    /// Nobody gets a claim while another's lease surely runs.
    OneLiveClaim,
    /// An owner is not fenced off while its lease surely runs.
    LiveClaimHolds,
    /// A completion that was acknowledged or told stays, byte for byte.
    CompletionKept,
    /// Nobody is told an answer that no owner sent.
    AnswerSent,
    /// What is erased is not told for more than a moment.
    Erased,
    /// A key that blocks is given to nobody until its doubt is settled, and can be settled once it lapsed.
    Blocked,
    /// In one call, what comes first is seen by what follows.
    BatchOrder,
    /// No call is refused for a reason that nothing explains.
    Expected,
    /// Grants stay within ratio and floor.
    RetryBound,
    /// A question has one token, a token one question.
    OneToken,
    /// What was acknowledged is counted, and nothing twice.
    DepositOnce,
    /// As many permits to probe as the policy says, and one unless it says otherwise.
    OneProbe,
    /// A generation of a breaker is one state, and a node never goes back.
    OneState,
    /// A watch tells the generations of a breaker in their order.
    ToldInOrder,
    /// Whoever watches a breaker is told of its changes.
    ChangeTold,
}

/// A broken promise, and what shows it.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) promise: Promise,
    pub(crate) seen: String,
}

impl Broken {
    pub(crate) fn new(promise: Promise, seen: impl Into<String>) -> Self {
        Self { promise, seen: seen.into() }
    }
}
