//! Commands that take many.

use crate::cli::targets::Targets;
use crate::cluster::{Chosen, Cluster};
use crate::error::Error;
use crate::ui::Ui;

/// Carries out a command for each of its targets, also when one of them fails. Returns the gravest exit code.
pub(super) async fn each(
    targets: &Targets,
    cluster: &Cluster,
    ui: &mut Ui,
    one: impl AsyncFn(&Chosen, &mut Ui) -> Result<u8, Error>,
) -> Result<u8, Error> {
    let chosen = cluster.chosen(targets).await?;
    match chosen.as_slice() {
        [] => {
            ui.say(&format!("No rollouts found {}.", cluster.scope(targets)));
            Ok(0)
        }
        [only] => one(only, ui).await,
        many => {
            let mut gravest = 0;
            for chosen in many {
                let code = match one(chosen, ui).await {
                    // Ctrl-C is meant for all.
                    Err(error @ Error::Interrupted) => return Err(error),
                    Err(error) => {
                        error.explain(ui);
                        error.exit_code()
                    }
                    Ok(code) => code,
                };
                gravest = graver(gravest, code);
            }
            Ok(gravest)
        }
    }
}

/// The exit code of two outcomes together.
fn graver(one: u8, other: u8) -> u8 {
    const ORDER: [u8; 6] = [1, 3, 6, 4, 5, 0];
    let place = |code: u8| ORDER.iter().position(|known| *known == code);
    // An unknown code is graver than all known ones.
    if place(one) <= place(other) { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_code_stays() {
        for (one, other, both) in [
            (0, 0, 0),
            (0, 4, 4),
            (4, 1, 1),
            (6, 3, 3),
            (4, 6, 6),
            (5, 0, 5),
            (1, 2, 2),
        ] {
            assert_eq!((graver(one, other), graver(other, one)), (both, both));
        }
    }
}
