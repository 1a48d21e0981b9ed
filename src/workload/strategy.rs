//! Which update strategies the API server takes, of kinds whose strategy it does not see while they are held.

use serde_json::{Value, json};

use super::means::present;

/// How many pods a strategy allows to be more or missing: a number, or a percentage.
#[derive(Clone, Copy)]
struct Pods {
    number: u64,
    is_percentage: bool,
}

impl Pods {
    /// Reads the member of a rolling update; what is not there has this default. `None`: the API server refuses it.
    fn read(rolling: Option<&Value>, name: &str, default: &Value) -> Option<Self> {
        let written = rolling.and_then(|rolling| present(rolling, &[name]));
        match written.unwrap_or(default) {
            Value::String(text) => {
                let digits = text.strip_suffix('%')?;
                let decimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
                decimal.then(|| Self {
                    // One that is too large for a number is large.
                    number: digits.parse().unwrap_or(u64::MAX),
                    is_percentage: true,
                })
            }
            number => Some(Self {
                number: i32::try_from(number.as_i64()?).ok()?.try_into().ok()?,
                is_percentage: false,
            }),
        }
    }

    fn is_share_of_all(self) -> bool {
        !self.is_percentage || self.number <= 100
    }
}

/// What is in `rollingUpdate` of a strategy of the rolling type; `Err` of another type.
fn rolling(strategy: &Value) -> Result<Option<&Value>, &Value> {
    match present(strategy, &["type"]) {
        None => Ok(present(strategy, &["rollingUpdate"])),
        Some(kind) if kind == "" || kind == "RollingUpdate" => Ok(present(strategy, &["rollingUpdate"])),
        Some(other) => Err(other),
    }
}

/// Of a Deployment.
pub(super) fn of_deployment(strategy: &Value) -> bool {
    let rolling = match rolling(strategy) {
        Ok(rolling) => rolling,
        Err(other) => return other == "Recreate" && present(strategy, &["rollingUpdate"]).is_none(),
    };
    let default = json!("25%");
    match (
        Pods::read(rolling, "maxSurge", &default),
        Pods::read(rolling, "maxUnavailable", &default),
    ) {
        (Some(surge), Some(unavailable)) => {
            unavailable.is_share_of_all() && (surge.number > 0 || unavailable.number > 0)
        }
        _ => false,
    }
}

/// Of a DaemonSet. Under `OnDelete` it takes whatever there is in `rollingUpdate`.
pub(super) fn of_daemon_set(strategy: &Value) -> bool {
    let rolling = match rolling(strategy) {
        Ok(rolling) => rolling,
        Err(other) => return other == "OnDelete",
    };
    match (
        Pods::read(rolling, "maxSurge", &json!(0)),
        Pods::read(rolling, "maxUnavailable", &json!(1)),
    ) {
        (Some(surge), Some(unavailable)) => {
            let shares = surge.is_share_of_all() && unavailable.is_share_of_all();
            shares && (surge.number > 0) != (unavailable.number > 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn strategy(kind: Value, surge: Value, unavailable: Value) -> Value {
        json!({"type": kind, "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    }

    /// The answers of the API server; a case of each kind asks it itself.
    #[rstest]
    #[case(json!("RollingUpdate"), json!(1), json!(0), true, true)]
    #[case(json!(null), json!(0), json!("10%"), true, true)]
    #[case(json!(""), json!("100%"), json!("0%"), true, true)]
    #[case(json!("RollingUpdate"), json!(0), json!(0), false, false)]
    #[case(json!("RollingUpdate"), json!("0%"), json!(0), false, false)]
    #[case(json!("RollingUpdate"), json!(1), json!(1), true, false)]
    #[case(json!("RollingUpdate"), json!(1), json!(null), true, false)]
    #[case(json!("RollingUpdate"), json!(null), json!(0), true, false)]
    #[case(json!("RollingUpdate"), json!(null), json!(null), true, true)]
    #[case(json!("RollingUpdate"), json!("150%"), json!(0), true, false)]
    #[case(json!("RollingUpdate"), json!(0), json!("101%"), false, false)]
    #[case(json!("RollingUpdate"), json!(0), json!("half"), false, false)]
    #[case(json!("RollingUpdate"), json!(0), json!("5"), false, false)]
    #[case(json!("RollingUpdate"), json!(-1), json!(1), false, false)]
    #[case(json!("RollingUpdate"), json!(0), json!(4294967297_i64), false, false)]
    #[case(json!("Recreate"), json!(1), json!(0), false, false)]
    #[case(json!("OnDelete"), json!(0), json!(0), false, true)]
    #[case(json!("half"), json!(1), json!(0), false, false)]
    fn a_strategy_is_taken_as_the_api_server_takes_it(
        #[case] kind: Value,
        #[case] surge: Value,
        #[case] unavailable: Value,
        #[case] deployment: bool,
        #[case] daemon_set: bool,
    ) {
        let strategy = strategy(kind, surge, unavailable);
        assert_eq!(
            (of_deployment(&strategy), of_daemon_set(&strategy)),
            (deployment, daemon_set)
        );
    }

    #[test]
    fn a_strategy_may_lack_all() {
        assert!(of_deployment(&json!({})) && of_daemon_set(&json!({})));
        assert!(of_deployment(&json!({"type": "Recreate", "rollingUpdate": null})));
    }
}
