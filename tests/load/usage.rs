//! What a process has used, from `/proc`.

use std::fs;

use serde_json::{Value, json};

/// Ticks of processor time in a second, as the kernel tells them to programs: the same on all machines that this runs on.
const TICKS: f64 = 100.0;

/// What the processes of one group have used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Processor time in seconds.
    pub(crate) cpu: f64,
    /// Resident memory in MiB.
    pub(crate) resident: f64,
    /// The part of it, in MiB, that is no page of a file: what was allocated, stacks, and data that was written to.
    pub(crate) anonymous: f64,
    /// The most resident memory until now, in MiB. Of several processes, the sum of what each had at most.
    pub(crate) peak: f64,
}

impl Usage {
    /// Of the process group with this id. Processes that have gone are not in it.
    pub(crate) fn of_group(group: u32) -> Self {
        let mut sum = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            let Some((of, ticks)) = group_and_ticks(&read("stat")) else {
                continue;
            };
            if of == group {
                let status = read("status");
                sum.cpu += ticks as f64 / TICKS;
                sum.resident += mebibytes(&status, "VmRSS:");
                sum.anonymous += mebibytes(&status, "RssAnon:");
                sum.peak += mebibytes(&status, "VmHWM:");
            }
        }
        sum
    }
}

/// Process group, and user and system time together, from `/proc/PID/stat`. The name of the program may have anything in it, so
/// fields are counted from its end.
fn group_and_ticks(stat: &str) -> Option<(u32, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((u32::try_from(number(2)?).ok()?, number(11)? + number(12)?))
}

/// A line of `/proc/PID/status`, which counts in KiB.
fn mebibytes(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.unwrap_or_default() / 1024.0
}

/// How many tasks have wanted a processor, on average over 1, 5 and 15 minutes.
pub(crate) fn load_average() -> Value {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let numbers: Vec<f64> = text
        .split_whitespace()
        .take(3)
        .filter_map(|word| word.parse().ok())
        .collect();
    json!(numbers)
}

/// A number with so many digits that a reader can use.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "17 (a) b (c) S 1 16 17 0 -1 4194560 1 0 0 0 25 5 0 0 20 0 1 0 9 1 1";
        assert_eq!(group_and_ticks(stat), Some((16, 30)));
        assert_eq!(group_and_ticks("nonsense"), None);
    }

    #[test]
    fn memory_is_told_in_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(mebibytes(status, "VmRSS:"), 1.0);
        assert_eq!(mebibytes(status, "VmHWM:"), 2.0);
        assert_eq!(mebibytes(status, "VmSwap:"), 0.0);
    }
}
