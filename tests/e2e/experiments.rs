//! The experiments of the notes that Semel answers to, as the command plays them.

use serde_json::Value;

use crate::support::command::run;

#[test]
fn three_attempts_at_a_slow_charge_charge_once() {
    let played = run(&["demo", "--json"]).ended_with(0).json();
    assert_eq!(played["without_key"]["charges"], 3, "{played}");
    assert_eq!(played["with_key"]["charges"], 1, "{played}");
    assert_eq!(played["with_wait"]["charges"], 1, "{played}");
    assert_eq!(results(&played["without_key"]), ["timeout", "timeout", "timeout"]);
    assert_eq!(results(&played["with_key"]), ["timeout", "in_progress", "replayed"]);
    assert_eq!(results(&played["with_wait"]), ["timeout", "replayed"]);
}

/// What the attempts of one row came to.
fn results(row: &Value) -> Vec<&str> {
    let attempts = row["attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["result"].as_str().unwrap()).collect()
}

#[test]
fn everybody_at_one_key_gets_the_one_answer() {
    for client in ["stock", "lean"] {
        let load = ["--client", client, "--connections", "64", "--seconds", "2", "--json"];
        let measured = run(&[&["bench", "hot-key"], &load[..]].concat()).ended_with(0).json();
        assert_eq!(measured["client"], client, "{measured}");
        assert_eq!(measured["claimed"], 1, "{measured}");
        assert_eq!(measured["distinct_responses"], 1, "{measured}");
        assert_eq!(measured["errors"], 0, "{measured}");
        assert!(measured["replayed"].as_u64() > Some(64), "{measured}");
    }
}
