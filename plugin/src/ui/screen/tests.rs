use super::*;

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

/// A screen whose size is in the second part.
fn screen() -> (Screen, Arc<Mutex<(usize, usize)>>, Written) {
    let (written, size) = (Written::default(), Arc::new(Mutex::new((60, 20))));
    let told = size.clone();
    let screen = Screen::new(Box::new(written.clone()), move || {
        let (columns, rows) = *told.lock().unwrap();
        Size { columns, rows }
    });
    (screen, size, written)
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn each_change_is_one_whole_frame() {
    let (screen, _, written) = screen();
    assert_eq!(
        screen.size(),
        Size {
            columns: 59,
            rows: 20
        }
    );
    screen.draw(lines(&["a", "b", "c"])).unwrap();
    assert_eq!(written.take(), "\x1b[?25la\nb\nc");
    screen.draw(lines(&["a", "b", "c"])).unwrap();
    assert_eq!(written.take(), "", "the same again is nothing new");
    screen.draw(lines(&["d"])).unwrap();
    assert_eq!(written.take(), "\x1b[2A\r\x1b[Jd");
    screen.draw(lines(&["e", "f"])).unwrap();
    assert_eq!(written.take(), "\r\x1b[Je\nf");
}

#[test]
fn what_is_said_in_between_stays_above() {
    let (screen, _, written) = screen();
    screen.draw(lines(&["a", "b"])).unwrap();
    written.take();
    screen.say("connected again").unwrap();
    assert_eq!(written.take(), "\x1b[1A\r\x1b[Jconnected again\na\nb");
}

#[test]
fn a_narrower_terminal_has_folded_the_lines() {
    let (screen, size, written) = screen();
    screen.draw(lines(&[&"x".repeat(50), "b"])).unwrap();
    written.take();
    *size.lock().unwrap() = (20, 20);
    screen.draw(lines(&["a", "b"])).unwrap();
    assert_eq!(written.take(), "\x1b[3A\r\x1b[Ja\nb");
    *size.lock().unwrap() = (20, 2);
    screen.draw(lines(&["a", "b", "c", "d"])).unwrap();
    written.take();
    screen.draw(lines(&["a"])).unwrap();
    assert_eq!(
        written.take(),
        "\x1b[1A\r\x1b[Ja",
        "what has left the screen stays"
    );
}

#[test]
fn the_same_frame_is_drawn_again_in_another_size() {
    let (screen, size, written) = screen();
    screen.draw(lines(&["a"])).unwrap();
    written.take();
    *size.lock().unwrap() = (80, 24);
    screen.draw(lines(&["a"])).unwrap();
    assert_eq!(written.take(), "\r\x1b[Ja");
}

#[test]
fn the_end_is_below_the_last_frame_and_nothing_follows() {
    let (screen, _, written) = screen();
    screen.draw(lines(&["a"])).unwrap();
    written.take();
    screen.close();
    assert_eq!(written.take(), "\x1b[?25h\n");
    screen.draw(lines(&["late"])).unwrap();
    screen.say("late").unwrap();
    screen.close();
    assert_eq!(written.take(), "");
}

#[test]
fn without_a_frame_there_is_nothing_to_bring_back() {
    let (screen, _, written) = screen();
    screen.close();
    assert_eq!(written.take(), "");
}

#[cfg(unix)]
#[test]
fn a_terminal_that_was_left_is_drawn_on_again() {
    let (screen, _, written) = screen();
    screen.draw(lines(&["a", "b"])).unwrap();
    written.take();
    screen.pause();
    assert_eq!(written.take(), "\x1b[?25h\n");
    screen.resume();
    assert_eq!(written.take(), "\x1b[?25la\nb");
    screen.close();
    written.take();
    screen.resume();
    assert_eq!(written.take(), "");
}

#[test]
fn a_panic_brings_the_cursor_back() {
    let (screen, _, written) = screen();
    screen.draw(lines(&["a"])).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let panic = runtime.block_on(async {
        let live = super::super::live::Live::new(screen);
        tokio::spawn(async move {
            let _live = live;
            panic!("in the middle of it");
        })
        .await
    });
    assert!(panic.unwrap_err().is_panic());
    assert_eq!(written.take(), "\x1b[?25la\x1b[?25h\n");
}
