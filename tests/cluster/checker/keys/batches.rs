//! The same key twice in one call: the first item wins, and the second sees it.

use std::collections::BTreeMap;

use super::{Answered, Asked, Broken, Call, Promise};

pub(super) fn judge(calls: &[Call], broken: &mut Vec<Broken>) {
    let mut batches: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        if let Some(batch) = call.batch {
            batches.entry(batch).or_default().push(call);
        }
    }
    for items in batches.values() {
        for pair in items.windows(2) {
            if !in_order(pair[0], pair[1]) {
                let seen = format!("{:?}, and in the same call {:?}", pair[0], pair[1]);
                broken.push(Broken::new(Promise::BatchOrder, seen));
            }
        }
    }
}

/// Whether the second item was answered as after the first.
fn in_order(first: &Call, second: &Call) -> bool {
    match (&first.asked, &second.asked) {
        (Asked::Claim { owner, .. }, Asked::Claim { owner: other, .. }) => match &first.answered {
            // Beyond its lease, others may have come in between.
            Answered::Granted { lease_us, .. } if first.ended_us >= first.began_us + lease_us => {
                true
            }
            Answered::Granted { fence, .. } if owner == other => {
                matches!(&second.answered, Answered::Granted { fence: again, resumed: true, .. }
                    if again == fence)
            }
            Answered::Granted { .. } => second.answered == Answered::Held,
            told @ Answered::Told { .. } => {
                second.answered == *told || second.answered == Answered::Erased
            }
            _ => true,
        },
        (
            Asked::Complete { owner, fence, body },
            Asked::Complete { owner: by, fence: under, body: again },
        ) if (owner, fence) == (by, under) => match &first.answered {
            Answered::Accepted { .. } if body == again => {
                matches!(second.answered, Answered::Accepted { .. } | Answered::Erased)
            }
            Answered::Accepted { .. } => {
                matches!(second.answered, Answered::Conflict | Answered::Erased)
            }
            Answered::Fenced => second.answered == Answered::Fenced,
            _ => true,
        },
        _ => true,
    }
}
