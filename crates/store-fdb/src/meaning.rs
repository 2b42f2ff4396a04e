//! What the error codes of the database mean for a change.
//!
//! Invariant: a commit is taken for undone only if its code says so for certain; every other code, those
//! that nobody has thought of among them, leaves it unknown.

/// What a transaction did when it met an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It read, or had not asked for its commit yet.
    Read,
    /// It had asked for its commit.
    Commit,
}

/// What an error means. But for `Unknown`, nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// What was read is no longer so, or too old: the whole round again, at once.
    Again,
    /// The cluster has too much to do: the same again after a pause.
    Busy,
    /// The cluster is away, or refuses for a while.
    Unavailable,
    /// It may have been committed.
    Unknown,
    /// Trying again won't help.
    Invalid,
}

impl Meaning {
    /// The meaning of an error code in a phase. The codes are those of the database, see
    /// `error_definitions.h` of its sources.
    pub(crate) fn of(code: i32, phase: Phase) -> Self {
        match (code, phase) {
            // not_committed, transaction_too_old.
            (1020 | 1007, _) => Self::Again,
            // future_version, process_behind, the memory limits of the proxies, and throttling: of
            // batches, by tags, at the proxy, of a hot shard. And what leaves a commit unknown, but a
            // read may run into again: all_alternatives_failed, commit_unknown_result,
            // cluster_version_changed.
            (1009 | 1037 | 1042 | 1078 | 1051 | 1213 | 1223 | 1235, _)
            | (1006 | 1021 | 1039, Phase::Read) => Self::Busy,
            // database_locked, storage_quota_exceeded.
            (1038 | 1225, _) => Self::Unavailable,
            // used_during_commit: whatever was committing may have been.
            (2017, Phase::Commit) => Self::Unknown,
            // What a client is refused before anything is sent (2000 to 2999), and permission_denied
            // with its kin (6000 to 6999).
            (2000..=2999 | 6000..=6999, _) => Self::Invalid,
            (_, Phase::Commit) => Self::Unknown,
            (_, Phase::Read) => Self::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Meaning::{Again, Busy, Invalid, Unavailable, Unknown};
    use super::*;

    #[test]
    fn each_code_has_its_meaning() {
        let table = [
            (1004, "timed_out", Unavailable, Unknown),
            (1006, "all_alternatives_failed", Busy, Unknown),
            (1007, "transaction_too_old", Again, Again),
            (1009, "future_version", Busy, Busy),
            (1020, "not_committed", Again, Again),
            (1021, "commit_unknown_result", Busy, Unknown),
            (1022, "commit_unknown_result_fatal", Unavailable, Unknown),
            (1025, "transaction_cancelled", Unavailable, Unknown),
            (1026, "connection_failed", Unavailable, Unknown),
            (1027, "coordinators_changed", Unavailable, Unknown),
            (1030, "request_maybe_delivered", Unavailable, Unknown),
            (1031, "transaction_timed_out", Unavailable, Unknown),
            (1037, "process_behind", Busy, Busy),
            (1038, "database_locked", Unavailable, Unavailable),
            (1039, "cluster_version_changed", Busy, Unknown),
            (1042, "commit_proxy_memory_limit_exceeded", Busy, Busy),
            (1051, "batch_transaction_throttled", Busy, Busy),
            (1078, "grv_proxy_memory_limit_exceeded", Busy, Busy),
            (1100, "broken_promise", Unavailable, Unknown),
            (1101, "operation_cancelled", Unavailable, Unknown),
            (1213, "tag_throttled", Busy, Busy),
            (1223, "proxy_tag_throttled", Busy, Busy),
            (1225, "storage_quota_exceeded", Unavailable, Unavailable),
            (1235, "transaction_throttled_hot_shard", Busy, Busy),
            (1500, "platform_error", Unavailable, Unknown),
            (1510, "io_error", Unavailable, Unknown),
            (1515, "no_cluster_file_found", Unavailable, Unknown),
            (2000, "client_invalid_operation", Invalid, Invalid),
            (2002, "commit_read_incomplete", Invalid, Invalid),
            (2004, "key_outside_legal_range", Invalid, Invalid),
            (2017, "used_during_commit", Invalid, Unknown),
            (2101, "transaction_too_large", Invalid, Invalid),
            (2102, "key_too_large", Invalid, Invalid),
            (2103, "value_too_large", Invalid, Invalid),
            (4000, "unknown_error", Unavailable, Unknown),
            (4100, "internal_error", Unavailable, Unknown),
            (6000, "permission_denied", Invalid, Invalid),
            (9_999, "one that nobody knows", Unavailable, Unknown),
            (-1, "no code at all", Unavailable, Unknown),
        ];
        for (code, name, read, commit) in table {
            assert_eq!(Meaning::of(code, Phase::Read), read, "{name} while reading");
            assert_eq!(Meaning::of(code, Phase::Commit), commit, "{name} at the commit");
        }
    }

    #[test]
    fn only_codes_that_are_certain_leave_a_commit_undone() {
        let certain = |code: &i32| Meaning::of(*code, Phase::Commit) != Unknown;
        let found: Vec<i32> = (0..2_000).filter(certain).collect();
        assert_eq!(found, [1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1213, 1223, 1225, 1235]);
    }
}
