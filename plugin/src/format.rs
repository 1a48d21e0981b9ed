//! Answers for programs.

use serde::Serialize;

use crate::error::Error;

/// JSON in one line.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value).map_err(|error| Error::Io(error.into()))?;
    Ok(harmless(&text))
}

/// JSON for people, too.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Io(error.into()))?;
    Ok(harmless(&text))
}

/// YAML without an end of line.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String, Error> {
    serde_saphyr::to_string(value)
        .map(|text| text.trim_end().to_owned())
        .map_err(|error| Error::Io(std::io::Error::other(error)))
}

/// What controls a terminal stands in strings only, where JSON can write it in another way. Line ends of the layout stay.
fn harmless(json: &str) -> String {
    let mut harmless = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() && c != '\n' {
            harmless.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            harmless.push(c);
        }
    }
    harmless
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_servers_say_cannot_control_a_terminal() {
        let evil = json!({"a": "x\u{1b}[2J\u{7}\u{9b}2J\u{7f}\r\ny", "k\u{9b}": ["\u{85}"]});
        for text in [json(&evil).unwrap(), pretty(&evil).unwrap(), yaml(&evil).unwrap()] {
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
            let back: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(back, evil, "{text}");
        }
    }
}
