//! Files of this machine that are sent with a prompt. The daemon checks their types and their number.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use windlass_protocol::InputPart;

use crate::cli::printable;
use crate::client::mentions::{MAX_FILE, MAX_IMAGE};

#[derive(Args)]
pub(crate) struct Attachments {
    /// Image to send with the first prompt: PNG, JPEG, GIF or WebP. Can be repeated.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Text file to send with the first prompt, after the images. Can be repeated.
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
}

impl Attachments {
    /// Reads the files; `None` if there are none.
    pub(crate) fn read(&self) -> Result<Option<Vec<InputPart>>> {
        let images = self.image.iter().map(|path| image(path));
        let files = self.file.iter().map(|path| file(path));
        let parts = images.chain(files).collect::<Result<Vec<_>>>()?;
        Ok((!parts.is_empty()).then_some(parts))
    }
}

pub(super) fn image(path: &Path) -> Result<InputPart> {
    Ok(InputPart::Image {
        data: Some(STANDARD.encode(read_at_most(path, MAX_IMAGE)?)),
        path: None,
        media_type: None,
    })
}

pub(super) fn file(path: &Path) -> Result<InputPart> {
    let text = String::from_utf8(read_at_most(path, MAX_FILE)?);
    let text = text.map_err(|_| anyhow!("{} is not UTF-8 text", printable(path)))?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok(InputPart::File {
        text: Some(text),
        path: None,
        name: Some(name.to_string_lossy().into_owned()),
    })
}

/// Reads a file of at most `max` bytes.
pub(crate) fn read_at_most(path: &Path, max: u64) -> Result<Vec<u8>> {
    let shown = printable(path);
    let file = File::open(path).with_context(|| format!("{shown} cannot be opened"))?;
    let mut bytes = Vec::new();
    file.take(max + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("{shown} cannot be read"))?;
    let is_short = u64::try_from(bytes.len()).is_ok_and(|length| length <= max);
    ensure!(is_short, "{shown} has more than {max} bytes");
    Ok(bytes)
}
