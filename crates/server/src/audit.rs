//! The audit log: one line for each act of an operator (target `semel::audit`).

/// Notes an act of an operator, with its fields.
macro_rules! audit {
    ($action:literal, $($field:tt)*) => {
        tracing::info!(target: "semel::audit", action = $action, $($field)*)
    };
}

pub(crate) use audit;
