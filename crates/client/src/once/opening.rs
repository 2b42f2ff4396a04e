//! How a claim begins: with work to do, or with an answer.

use std::time::Duration;

use super::held::Held;
use super::outcome::{Outcome, Unknown};
use crate::keys::ClaimAnswer;

pub(crate) enum Opening {
    Work(Held),
    Answer(Outcome),
}

impl Opening {
    pub(crate) fn of(answer: ClaimAnswer) -> Self {
        Self::Answer(match answer {
            ClaimAnswer::Yours(claim) => return Self::Work(Held::new(*claim)),
            ClaimAnswer::Done(answer) => Outcome::Replayed(answer),
            ClaimAnswer::InProgress { retry_after } => Outcome::InProgress { retry_after },
            ClaimAnswer::Indeterminate => Outcome::Unknown(Unknown::Blocked),
            // Not said to an owner id that is new. If it is, this request is a late copy of one that was
            // given back: another may claim at once.
            ClaimAnswer::Released => Outcome::InProgress { retry_after: Duration::ZERO },
        })
    }
}
