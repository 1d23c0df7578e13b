//! A terminal that goes away. A program that it controls gets a signal; any other would read nothing from it for ever.

use std::io;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::Notify;

/// Tells when the terminal of stdin has gone away. Where the system cannot say it, nobody is ever told.
pub(crate) fn hang_up() -> Arc<Notify> {
    let told = Arc::new(Notify::new());
    let tell = Arc::clone(&told);
    thread::spawn(move || {
        let stdin = io::stdin();
        // Nothing is asked for: an end is told all the same.
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        let [watched] = &watched;
        let gone = PollFlags::HUP | PollFlags::ERR;
        if watched.revents().intersects(gone) {
            tell.notify_one();
        }
    });
    told
}
