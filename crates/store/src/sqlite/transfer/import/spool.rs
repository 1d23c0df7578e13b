//! A file that buffers the incoming lines until all have arrived.
//!
//! Other writers wait during an import, so it must not wait for the sender of the lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::sqlite::open::rights;

/// Copies lines into an unnamed file, which disappears with this process.
pub(super) fn spool(directory: &Path, mut lines: impl BufRead) -> io::Result<BufReader<File>> {
    let path = directory.join(format!("windlass.import-{}", uuid::Uuid::now_v7().simple()));
    let file = OpenOptions::new()
        .create_new(true)
        .read(true)
        .write(true)
        .mode(rights::OF_FILES)
        .open(&path)?;
    fs::remove_file(&path)?;
    let mut out = BufWriter::new(file);
    io::copy(&mut lines, &mut out)?;
    out.flush()?;
    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(BufReader::new(file))
}
