//! Lines that are on their way in, kept aside until all of them are there.
//!
//! Nobody else writes while an import is taken in, so it must not wait for whoever sends the lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::super::rights;

/// Copies lines into a file without a name, which goes with this process.
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
