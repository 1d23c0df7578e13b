//! Stands between commands and the socket of a daemon, and can break off and be slow.

use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How slow it is: slower than a screen is drawn.
const SLOW: Duration = Duration::from_millis(500);

/// Passes on what is said over a socket.
#[derive(Clone, Default)]
pub(crate) struct Relay {
    open: Arc<Mutex<Vec<UnixStream>>>,
    is_slow: Arc<AtomicBool>,
}

impl Relay {
    /// Takes the place of the socket in the data directory of a daemon.
    pub(crate) fn before(data: &Path) -> Self {
        let (socket, real) = (data.join("daemon.sock"), data.join("real.sock"));
        fs::rename(&socket, &real).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let relay = Self::default();
        let taken = relay.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (relay, real) = (taken.clone(), real.clone());
                thread::spawn(move || relay.pass_on(&client, &real));
            }
        });
        relay
    }

    /// Ends all connections, and is slow with those that follow.
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
        let asked = thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Write)
        });
        let _ = io::copy(&mut &server, &mut &*client);
        let _ = client.shutdown(Shutdown::Write);
        let _ = asked.join();
        Ok(())
    }
}
