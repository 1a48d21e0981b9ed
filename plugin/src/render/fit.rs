//! Text that has a width.

use dialoguer::console::{measure_text_width, truncate_str};

use crate::ui::style::{Role, Theme};

/// The line, cut off where it is too wide.
pub(super) fn fit(line: &str, width: usize, theme: Theme) -> String {
    let tail = if theme.unicode { "…" } else { "~" };
    let line = line.trim_end();
    if width == 0 {
        String::new()
    } else {
        truncate_str(line, width, tail).into_owned()
    }
}

/// The text, filled up with spaces.
pub(super) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(measure_text_width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// A command in at most so many lines that a shell takes as one; cut off if that is not enough.
pub(super) fn command(text: &str, width: usize, lines: usize, theme: Theme) -> Vec<String> {
    const GOES_ON: &str = " \\";
    let mut folded = vec![String::new()];
    for word in text.split(' ') {
        let last = folded.len() - 1;
        let line = &mut folded[last];
        let room = width.saturating_sub(GOES_ON.len());
        if !line.is_empty() && measure_text_width(line) + 1 + measure_text_width(word) > room {
            line.push_str(GOES_ON);
            folded.push(format!("  {word}"));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let fits = folded.len() <= lines && folded.iter().all(|line| measure_text_width(line) <= width);
    if measure_text_width(text) > width && fits {
        folded
    } else {
        vec![fit(text, width, theme)]
    }
}

/// A bar: pods that are ready, pods that are on the way, pods that are still to come.
pub(super) fn bar(ready: u32, done: u32, of: u32, width: usize, role: Role, theme: Theme) -> String {
    let cells = |part: u32| {
        let part = usize::try_from(part.min(of)).unwrap_or(usize::MAX);
        let of = usize::try_from(of).unwrap_or(usize::MAX);
        // Rounded down, lest a bar look full before it is.
        part.saturating_mul(width).checked_div(of).unwrap_or(0)
    };
    let (ready, done) = (cells(ready.min(done)), cells(done));
    let (full, begun, rest) = if theme.unicode {
        ("█", "▒", "░")
    } else {
        ("#", "+", "-")
    };
    let filled = format!("{}{}", full.repeat(ready), begun.repeat(done - ready));
    let rest = rest.repeat(width - done);
    let paint = |role, text: String| {
        if text.is_empty() {
            text
        } else {
            theme.paint(role, &text)
        }
    };
    format!("{}{}", paint(role, filled), paint(Role::Quiet, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Theme = Theme {
        color: false,
        unicode: false,
    };

    #[test]
    fn bars_are_full_only_when_all_is_there() {
        let bar = |ready, done, of| bar(ready, done, of, 10, Role::Busy, PLAIN);
        assert_eq!(bar(0, 0, 3), "----------");
        assert_eq!(bar(1, 2, 3), "###+++----");
        assert_eq!(bar(2, 2, 3), "######----");
        assert_eq!(bar(3, 3, 3), "##########");
        assert_eq!(bar(9, 9, 3), "##########");
        assert_eq!(bar(999_999, 999_999, 1_000_000), "#########-");
        assert_eq!(bar(0, 0, 0), "----------");
        assert_eq!(bar(u32::MAX, u32::MAX, u32::MAX), "##########");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(measure_text_width(&fit("発布発布", 5, PLAIN)), 5);
        assert_eq!(pad("発", 4), "発  ");
        assert_eq!(fit("abcdef", 4, PLAIN), "abc~");
        assert_eq!(fit("abcd", 4, PLAIN), "abcd");
        assert_eq!(fit("abcd", 0, PLAIN), "");
    }

    #[test]
    fn commands_stay_commands() {
        let text = "kubectl kruise rollout approve rollout/my-app -n shop";
        assert_eq!(command(text, 80, 3, PLAIN), [text]);
        let folded = command(text, 32, 3, PLAIN);
        assert_eq!(
            folded,
            ["kubectl kruise rollout approve \\", "  rollout/my-app -n shop"]
        );
        assert_eq!(command(text, 32, 1, PLAIN), ["kubectl kruise rollout approve ~"]);
        assert_eq!(command(text, 10, 9, PLAIN), ["kubectl k~"]);
    }
}
