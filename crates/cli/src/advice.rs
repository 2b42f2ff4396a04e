//! What a person can do about an error, by its stable reason.

use tonic::Code;

/// The next step after an error with this reason, or failing that with this code.
pub(crate) fn advice(reason: Option<&str>, code: Code) -> Option<&'static str> {
    reason.and_then(by_reason).or_else(|| by_code(code))
}

fn by_reason(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "KEY_PAYLOAD_MISMATCH" => {
            "this key stands for another payload: send the payload of the first claim, or make a \
             new key for a new intent"
        }
        "FINGERPRINT_INCOMPARABLE" => {
            "the key was claimed with other fingerprint algorithms: send one of those as well"
        }
        "KEY_EXPIRED" => "find out whether the work was done; make a new key only for a new intent",
        "COMPLETION_CONFLICT" => "read the answer that stands with `semel keys replay`",
        "FENCED" => {
            "somebody else has the claim since: stop the work, and look with `semel keys get`"
        }
        "KEY_NOT_COMPLETED" => "settle it first with `semel keys reconcile`",
        "CLAIM_LIVE" => "its owner is at work: wait until the lease ends",
        "KEY_UNKNOWN" => "check tenant, operation, key and payload: a wrong one looks the same",
        "POLICY_CONFLICT" => "somebody set it meanwhile: look with `policy get`, then set it again",
        "WATCHERS_FULL" => "too many watch this node already: ask again later, or another node",
        "WAITERS_FULL" => "too many callers wait already: ask again later, or without --wait",
        "OVERLOADED" => "the node is busy: ask again later",
        "STORE_UNAVAILABLE" => {
            "whether it was written is unknown: send the same command again, with the same ids"
        }
        "SHUTTING_DOWN" => "the node is stopping: ask again, with the same ids",
        "DEADLINE_TOO_SHORT" => "give it more time with --timeout",
        _ => return None,
    })
}

const fn by_code(code: Code) -> Option<&'static str> {
    match code {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
            Some("whether it was done is unknown: send the same command again, with the same ids")
        }
        Code::Unimplemented => Some("the node is of another version, or no Semel node at all"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_outranks_its_code() {
        let by_reason = advice(Some("SHUTTING_DOWN"), Code::Unavailable);
        assert!(by_reason.is_some_and(|text| text.contains("stopping")));
        let by_code = advice(Some("UNHEARD_OF"), Code::Unavailable);
        assert!(by_code.is_some_and(|text| text.contains("unknown")));
        assert_eq!(advice(None, Code::NotFound), None);
    }
}
