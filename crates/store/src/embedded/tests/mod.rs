//! The engine as a whole.

mod conformance;
mod crash;
mod damage;
mod groups;
mod support;
