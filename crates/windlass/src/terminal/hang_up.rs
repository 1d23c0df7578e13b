//! Detects that the terminal went away. Only processes that the terminal controls get a signal; others would wait for input forever.

use std::io;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::Notify;

/// Notifies when the terminal of stdin has gone away. If the system cannot detect it, there is no notification.
pub(crate) fn hang_up() -> Arc<Notify> {
    let gone = Arc::new(Notify::new());
    let notify = Arc::clone(&gone);
    thread::spawn(move || {
        let stdin = io::stdin();
        // No event is requested: `poll` always reports a hangup.
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        let [watched] = &watched;
        let hang_up = PollFlags::HUP | PollFlags::ERR;
        if watched.revents().intersects(hang_up) {
            notify.notify_one();
        }
    });
    gone
}
