mod rows;

use super::{ATTEMPTS, print};
use crate::cli::ListRollouts;
use crate::cluster::{Cluster, Pages, Roll, RollChange};
use crate::error::Error;
use crate::follow::now;
use crate::ui::{Listener, Ui};
use rows::Rows;

/// The code of a page that the server cannot give any more: it has forgotten the state that it was listing.
const GONE: u16 = 410;

pub(super) async fn run(command: &ListRollouts, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let cluster = if command.all_namespaces {
        cluster.everywhere()
    } else {
        cluster.clone()
    };
    let selector = command.selector.as_deref();
    let (mut rows, mut pages) = (Rows::new(command), Pages::new(&cluster, selector));
    let (mut said, mut worlds, mut attempt) = (0, Vec::new(), 1);
    loop {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            Ok(None) => break,
            Err(Error::Server(status))
                if status.code == GONE && rows.printed() == 0 && attempt < ATTEMPTS =>
            {
                attempt += 1;
                pages.restart();
                rows = Rows::new(command);
                worlds.clear();
                continue;
            }
            // What has been printed cannot be taken back.
            Err(cause) if rows.printed() > 0 => return Err(Error::cut(rows.printed(), cause)),
            Err(error) => return Err(error),
        };
        print::hidden(&pages.hidden()[said..], ui);
        said = pages.hidden().len();
        for world in page {
            rows.add(&world, ui)?;
            if command.watch {
                worlds.push(world);
            }
        }
    }
    rows.finish(&cluster, ui)?;
    if command.watch {
        follow(
            rows,
            Roll::new(&cluster, selector, pages.into_kinds(), worlds),
            ui,
        )
        .await?;
    }
    Ok(0)
}

/// Prints each row again when it changes, until it is interrupted.
async fn follow(mut rows: Rows<'_>, mut roll: Roll, ui: &mut Ui) -> Result<(), Error> {
    let listener = Listener::new();
    loop {
        let change = tokio::select! {
            change = roll.next() => change?,
            () = listener.gone() => return Err(Error::Io(std::io::ErrorKind::BrokenPipe.into())),
        };
        match change {
            RollChange::Note(note) => ui.say(&note),
            RollChange::Changed(keys) => {
                for key in keys {
                    match roll.world(&key) {
                        Some(world) => rows.show_again(&world.report(None, now()), ui)?,
                        None => rows.show_gone(&key, ui)?,
                    }
                }
            }
        }
    }
}
