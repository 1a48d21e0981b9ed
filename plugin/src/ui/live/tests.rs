use std::sync::{Arc, Mutex};

use super::*;
use crate::ui::style::Role;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

fn live(written: &Written, color: bool) -> Live {
    Live::new(
        Screen::new(Box::new(written.clone()), || (60, 20)),
        Theme {
            color,
            unicode: false,
        },
    )
}

fn frame(head: &str, bars: &[(u32, u32)], foot: &[&str]) -> Frame {
    Frame {
        head: vec![head.to_owned()],
        bars: bars
            .iter()
            .map(|(done, of)| Bar {
                label: "step".to_owned(),
                done: *done,
                of: *of,
                text: format!("{done}/{of}"),
                role: Role::Busy,
            })
            .collect(),
        foot: foot.iter().map(|line| (*line).to_owned()).collect(),
    }
}

#[test]
fn each_change_is_one_whole_frame() {
    let written = Written::default();
    let mut live = live(&written, false);
    live.draw(frame("a", &[(1, 2), (0, 4)], &["next"])).unwrap();
    assert_eq!(
        written.take(),
        "\r\x1b[Ja\nstep ############>----------- 1/2\nstep ------------------------ 0/4\nnext"
    );
    live.draw(frame("a", &[(1, 2), (0, 4)], &["next"])).unwrap();
    assert_eq!(written.take(), "", "the same again is nothing new");
    live.draw(frame("b", &[(2, 2)], &[])).unwrap();
    assert_eq!(
        written.take(),
        "\x1b[3A\r\x1b[Jb\nstep ######################## 2/2"
    );
    live.draw(frame("b", &[(2, 2)], &["x", "y"])).unwrap();
    assert_eq!(
        written.take(),
        "\x1b[1A\r\x1b[Jb\nstep ######################## 2/2\nx\ny"
    );
}

#[test]
fn what_is_said_in_between_stays_above() {
    let written = Written::default();
    let mut live = live(&written, false);
    live.draw(frame("a", &[], &["b"])).unwrap();
    written.take();
    live.say("connected again");
    assert_eq!(written.take(), "\x1b[1A\r\x1b[Jconnected again\na\nb");
}

#[test]
fn lines_that_wrap_are_cleared_whole() {
    let written = Written::default();
    let mut live = live(&written, false);
    live.draw(frame(&"x".repeat(61), &[], &["b"])).unwrap();
    written.take();
    live.draw(frame("a", &[], &["b"])).unwrap();
    assert!(written.take().starts_with("\x1b[2A\r\x1b[J"));
}

#[test]
fn the_end_is_below_the_last_frame_and_nothing_follows() {
    let written = Written::default();
    let mut live = live(&written, false);
    live.draw(frame("a", &[], &[])).unwrap();
    written.take();
    live.close();
    live.say("late");
    drop(live);
    assert_eq!(written.take(), "\n");
}

#[test]
fn bars_have_the_colour_of_their_role_if_any() {
    let written = Written::default();
    let mut coloured = live(&written, true);
    coloured.draw(frame("a", &[(1, 2)], &[])).unwrap();
    assert!(
        written
            .take()
            .contains("\x1b[33m############>-----------\x1b[0m 1/2")
    );
}
