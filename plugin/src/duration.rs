//! Durations as kubectl writes them.

use std::time::Duration;

/// Reads a duration such as `1h2m3s`, `1.5s` or `300ms`; a bare number means seconds.
///
/// # Errors
/// What should have been written.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration: write it like 30s, 5m or 1h30m");
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Duration::from_secs).map_err(|_| wrong());
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("0", 0),
            ("30", 30_000),
            ("30s", 30_000),
            ("1h2m3s", 3_723_000),
            ("1.5s", 1_500),
            ("300ms", 300),
            ("2m", 120_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "-1s",
            "1",
            "s",
            "1x",
            "5 m",
            "..s",
            "1e9999s",
            "99999999999999999999h",
        ] {
            assert!(parse_duration(text).is_err() || text == "1", "{text}");
        }
    }
}
