//! What many runs of one experiment came to: the middle and the extremes.

/// The least, the middle and the most of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread<T> {
    /// The least.
    pub least: T,
    /// The one in the middle; of an even number, the lower of two.
    pub median: T,
    /// The most.
    pub most: T,
}

impl<T: Copy + PartialOrd> Spread<T> {
    /// The spread of `figures`; `None` if there are none.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut figures: Vec<T> = figures.into_iter().collect();
        figures.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
        let middle = figures.len().checked_sub(1)? / 2;
        let at = |position: usize| figures.get(position).copied();
        Some(Self { least: at(0)?, median: at(middle)?, most: at(figures.len() - 1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_extremes_of_figures() {
        let spread = Spread { least: 1, median: 2, most: 9 };
        assert_eq!(Spread::of([9, 1, 2]), Some(spread));
        assert_eq!(Spread::of([9, 1, 2, 3]).map(|spread| spread.median), Some(2));
        assert_eq!(Spread::<u32>::of([]), None);
    }
}
