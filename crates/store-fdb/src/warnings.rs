//! Settings of the cluster with which acknowledged changes can be lost.

use serde_json::Value;

/// Reads the cluster's status, as JSON: sentences for the operator, none if all is well.
pub(crate) fn find(status: &[u8]) -> Result<Vec<String>, String> {
    let status: Value = serde_json::from_slice(status)
        .map_err(|error| format!("the status of the cluster can't be read: {error}"))?;
    let redundancy =
        status.pointer("/cluster/configuration/redundancy_mode").and_then(Value::as_str);
    let losses = "/cluster/fault_tolerance/max_zone_failures_without_losing_data";
    let losses = status.pointer(losses).and_then(Value::as_i64);
    let warning = match (redundancy, losses) {
        (Some("single"), _) => {
            "the redundancy of the cluster is `single`: each record is on one disk, and with that disk \
             all claims on it are lost; configure `double` or `triple`"
                .to_owned()
        }
        (_, Some(losses)) if losses < 1 => format!(
            "the cluster can't lose any machine now without losing data (redundancy {}): claims that were \
             acknowledged would be lost with it, until it has repaired itself or has more machines",
            redundancy.unwrap_or("unknown")
        ),
        _ => return Ok(Vec::new()),
    };
    Ok(vec![warning])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loses_data_is_named() {
        let status = |mode: &str, losses: i64| {
            let status = serde_json::json!({"cluster": {
                "configuration": {"redundancy_mode": mode},
                "fault_tolerance": {"max_zone_failures_without_losing_data": losses},
            }});
            find(status.to_string().as_bytes()).unwrap()
        };
        assert!(status("single", 0)[0].contains("one disk"));
        assert!(status("double", 0)[0].contains("any machine now"));
        assert!(status("double", 1).is_empty());
        assert!(status("triple", 2).is_empty());
        assert_eq!(find(b"{}"), Ok(vec![]), "a cluster that says nothing is not blamed");
        assert!(find(b"").is_err());
    }
}
