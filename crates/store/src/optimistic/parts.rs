//! Many decisions as a few requests, none too heavy.

use std::borrow::Borrow;

use super::Decision;

/// Cuts `decisions` into runs that weigh at most `most_bytes`, each as `weight_of` says, or are one decision.
pub fn parts<D: Borrow<Decision>>(
    decisions: &[D],
    most_bytes: usize,
    weight_of: impl Fn(&Decision) -> usize,
) -> impl Iterator<Item = &[D]> {
    let mut rest = decisions;
    std::iter::from_fn(move || {
        let mut weight = 0;
        let fits = rest.iter().take_while(|it| {
            weight += weight_of((*it).borrow());
            weight <= most_bytes
        });
        let (part, others) = rest.split_at_checked(fits.count().max(1))?;
        rest = others;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::Write;
    use super::*;

    #[test]
    fn no_part_is_too_heavy_unless_it_is_one_decision() {
        let decision = |bytes: usize| Decision {
            record: 0,
            key: Bytes::new(),
            write: Write::Insert,
            value: Some(vec![0; bytes - 1_024].into()),
            changed: true,
            relaxed: false,
            needs_flush: false,
            index: Vec::new(),
            snapshot: 0,
        };
        let weights = |weights: &[usize]| {
            let decisions: Vec<Decision> = weights.iter().map(|it| decision(*it)).collect();
            let lengths: Vec<usize> =
                parts(&decisions, 5_000, Decision::weight).map(<[_]>::len).collect();
            lengths
        };
        assert_eq!(weights(&[]), [0; 0]);
        assert_eq!(weights(&[9_000]), [1]);
        assert_eq!(weights(&[2_000, 3_000, 2_000, 2_000, 1_025]), [2, 2, 1]);
        assert_eq!(weights(&[2_000, 9_000, 2_000, 3_000]), [1, 1, 2]);
    }
}
