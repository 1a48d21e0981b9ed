//! A partition as it is written: a number of pods, or a share of them.

use std::fmt;

use serde_json::{Value, json};

use super::marks::read_count;
use crate::api::v1beta1::Amount;
use crate::lens::Scalar;
use crate::plan::scaled;

/// The pods that a workload keeps back. What we write is always a count; a percentage is what a person has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// So many pods.
    Count(i64),
    /// A percentage of the pods, rounded up; from 0 to 999.
    Percent(u32),
}

impl Partition {
    /// Reads a percentage as people write it, without leading zeros, so that it is given back as it was.
    #[must_use]
    pub fn read_percent(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('%')?;
        let plain = digits.len() <= 3 && (digits == "0" || !digits.starts_with('0'));
        let percent = read_count(digits).filter(|_| plain)?;
        u32::try_from(percent).ok().map(Self::Percent)
    }

    /// The count, unless it is a percentage.
    #[must_use]
    pub const fn count(self) -> Option<i64> {
        match self {
            Self::Count(count) => Some(count),
            Self::Percent(_) => None,
        }
    }

    /// The pods that it keeps back of so many replicas. A count may be more than all of them.
    #[must_use]
    pub fn pods(self, replicas: u32) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => i64::from(scaled(Amount::Percent(percent), replicas)),
        }
    }

    /// The field's value.
    #[must_use]
    pub fn value(self) -> Value {
        match self {
            Self::Count(count) => json!(count),
            Self::Percent(_) => json!(self.to_string()),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Scalar for Partition {
    const EXPECTED: &'static str = "an integer or a percentage such as \"20%\"";
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::read_percent(text),
            number => number.as_i64().map(Self::Count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_back_as_it_was() {
        for value in [json!(0), json!(4), json!("0%"), json!("20%"), json!("150%")] {
            let partition = Partition::read(&value).unwrap();
            assert_eq!(partition.value(), value);
        }
        for value in [
            json!("4"),
            json!("020%"),
            json!("-5%"),
            json!("1000%"),
            json!("5 %"),
            json!("%"),
            json!("half"),
            json!(0.5),
            json!(true),
        ] {
            assert_eq!(Partition::read(&value), None, "{value}");
        }
    }

    #[test]
    fn a_share_rounds_up_and_is_never_more_than_all() {
        let pods = |text, replicas| Partition::read_percent(text).unwrap().pods(replicas);
        assert_eq!((pods("20%", 5), pods("21%", 5), pods("0%", 5)), (1, 2, 0));
        assert_eq!((pods("150%", 5), pods("100%", 0)), (5, 0));
        assert_eq!(Partition::Count(40).pods(5), 40);
    }
}
