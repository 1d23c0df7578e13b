//! A proxy between commands and a daemon's socket that can drop connections and be slow.

use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The delay; longer than the redraw interval of the screen.
const SLOW: Duration = Duration::from_millis(500);

/// Forwards data between sockets.
#[derive(Clone, Default)]
pub(crate) struct Relay {
    open: Arc<Mutex<Vec<UnixStream>>>,
    is_slow: Arc<AtomicBool>,
}

impl Relay {
    /// Replaces the socket in the data directory of a daemon.
    pub(crate) fn before(data: &Path) -> Self {
        let (socket, real) = (data.join("daemon.sock"), data.join("real.sock"));
        fs::rename(&socket, &real).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let relay = Self::default();
        let accepting = relay.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (relay, real) = (accepting.clone(), real.clone());
                thread::spawn(move || relay.pass_on(&client, &real));
            }
        });
        relay
    }

    /// Drops all connections, and delays those that follow.
    pub(crate) fn break_off(&self) {
        self.is_slow.store(true, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn pass_on(&self, client: &UnixStream, real: &Path) -> io::Result<()> {
        if self.is_slow.load(Ordering::SeqCst) {
            thread::sleep(SLOW);
        }
        let server = UnixStream::connect(real)?;
        let both = [client.try_clone()?, server.try_clone()?];
        self.open.lock().unwrap().extend(both);
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        let requests = thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Write)
        });
        let _ = io::copy(&mut &server, &mut &*client);
        let _ = client.shutdown(Shutdown::Write);
        let _ = requests.join();
        Ok(())
    }
}
