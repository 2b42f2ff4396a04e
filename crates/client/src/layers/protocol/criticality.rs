//! How much a request matters.

use semel_proto::v1;

/// An extension of a request: how much it matters, when a node is asked for a retry token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Criticality {
    /// May be dropped first.
    Sheddable,
    /// Ordinary work.
    #[default]
    Default,
    /// May draw on the part of the budget that the policy keeps in reserve.
    High,
}

impl Criticality {
    pub(crate) const fn to_wire(self) -> v1::Criticality {
        match self {
            Self::Sheddable => v1::Criticality::Sheddable,
            Self::Default => v1::Criticality::Default,
            Self::High => v1::Criticality::High,
        }
    }
}
