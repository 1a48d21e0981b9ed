/// Lines around a change.
const CONTEXT: usize = 3;

/// A line of one text, of the other, or of both.
#[derive(Clone, Copy)]
enum Line<'a> {
    Both(&'a str),
    Before(&'a str),
    After(&'a str),
}

/// The unified diff of two texts; nothing when they are the same.
pub(crate) fn diff(before: &str, after: &str, name_before: &str, name_after: &str) -> Vec<String> {
    let lines = aligned(
        &before.lines().collect::<Vec<_>>(),
        &after.lines().collect::<Vec<_>>(),
    );
    let changed = |line: &Line<'_>| !matches!(line, Line::Both(_));
    let mut near: Vec<bool> = vec![false; lines.len()];
    for (place, _) in lines.iter().enumerate().filter(|(_, line)| changed(line)) {
        let end = (place + CONTEXT + 1).min(lines.len());
        near[place.saturating_sub(CONTEXT)..end].fill(true);
    }
    let mut shown = Vec::new();
    let (mut place, mut old, mut new) = (0, 1, 1);
    while place < lines.len() {
        let length = near[place..].iter().take_while(|near| **near).count();
        if length == 0 {
            (place, old, new) = (place + 1, old + 1, new + 1);
            continue;
        }
        let hunk = &lines[place..place + length];
        let count = |side: fn(&Line<'_>) -> bool| hunk.iter().filter(|line| side(line)).count();
        let of_before = count(|line| !matches!(line, Line::After(_)));
        let of_after = count(|line| !matches!(line, Line::Before(_)));
        if shown.is_empty() {
            shown.extend([format!("--- {name_before}"), format!("+++ {name_after}")]);
        }
        shown.push(format!("@@ -{old},{of_before} +{new},{of_after} @@"));
        shown.extend(hunk.iter().map(|line| match line {
            Line::Both(text) => format!(" {}", super::plain(text)),
            Line::Before(text) => format!("-{}", super::plain(text)),
            Line::After(text) => format!("+{}", super::plain(text)),
        }));
        (place, old, new) = (place + length, old + of_before, new + of_after);
    }
    shown
}

/// Both texts in one sequence, by their longest common subsequence. Quadratic, which is enough for pod templates.
fn aligned<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let mut common = vec![vec![0_u32; after.len() + 1]; before.len() + 1];
    for (i, a) in before.iter().enumerate().rev() {
        for (j, b) in after.iter().enumerate().rev() {
            common[i][j] = if a == b {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::with_capacity(before.len() + after.len());
    while i < before.len() || j < after.len() {
        match (before.get(i), after.get(j)) {
            (Some(a), Some(b)) if a == b => {
                lines.push(Line::Both(a));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), _) if j == after.len() || common[i + 1][j] >= common[i][j + 1] => {
                lines.push(Line::Before(a));
                i += 1;
            }
            (_, Some(b)) => {
                lines.push(Line::After(b));
                j += 1;
            }
            _ => break,
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(changed: &[usize]) -> String {
        let line = |n: usize| {
            if changed.contains(&n) {
                format!("new {n}\n")
            } else {
                format!("{n}\n")
            }
        };
        (1..=30).map(line).collect()
    }

    #[test]
    fn hunks_have_their_places_and_their_context() {
        let shown = diff(&numbered(&[]), &numbered(&[2, 20]), "a", "b");
        assert_eq!(
            shown,
            [
                "--- a",
                "+++ b",
                "@@ -1,5 +1,5 @@",
                " 1",
                "-2",
                "+new 2",
                " 3",
                " 4",
                " 5",
                "@@ -17,7 +17,7 @@",
                " 17",
                " 18",
                " 19",
                "-20",
                "+new 20",
                " 21",
                " 22",
                " 23"
            ]
        );
    }

    #[test]
    fn what_is_added_and_removed() {
        assert_eq!(
            diff("a\nb\nc\n", "a\nc\nd\n", "x", "y"),
            ["--- x", "+++ y", "@@ -1,3 +1,3 @@", " a", "-b", " c", "+d"]
        );
        assert!(diff("a\n", "a\n", "x", "y").is_empty());
        assert_eq!(diff("", "a\n", "x", "y").last().unwrap(), "+a");
    }
}
