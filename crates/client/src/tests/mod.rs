//! The client against a small Semel in this process, in paused time.

mod calls;
mod consumer;
mod idempotency;
mod once;
mod semel;
mod threads;
