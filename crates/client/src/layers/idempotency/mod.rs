//! Handles a request once.

mod answer;
mod dialect;
mod grpc;
mod handling;
mod headers;
mod http;
mod intake;
mod key;
mod layer;
mod problem;
mod service;
mod tasks;
mod verdict;

pub use self::answer::AnswerBody;
pub use self::grpc::{GrpcDialect, verdict_of_code};
pub use self::http::{HttpDialect, operation_of_route, verdict_of_status};
pub use self::layer::IdempotencyLayer;
pub use self::service::IdempotencyService;
pub use self::verdict::Verdict;
