//! A node as its users have it: the built command in a process of its own, on a port of its own.
//!
//! # Layout
//!
//! - `node`: a running node, and everything that can happen to its process
//! - `command`: one run of the command, and what came of it
//! - `ask`: requests and replies with the tedious parts filled in
//! - `settings`: how long the tests go on, and how they say that they left something out

#![allow(dead_code, reason = "each test program uses its own part")]

pub(crate) mod ask;
pub(crate) mod command;
pub(crate) mod node;
pub(crate) mod settings;
