//! Reads and writes fields: little endian, lengths before texts.

use super::{FormatError, checksum};

/// Fields in a row.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// A text of up to 65,535 bytes.
    pub(super) fn text(&mut self, text: &str) {
        let len = u16::try_from(text.len()).unwrap_or_else(|_| panic!("a text of {} bytes", text.len()));
        self.u16(len);
        self.0.extend(text.as_bytes());
    }

    /// Up to 4 GiB of bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).unwrap_or_else(|_| panic!("a record of {} bytes", bytes.len()));
        self.u32(len);
        self.0.extend(bytes);
    }

    /// All fields, with their checksum behind them.
    pub(super) fn sealed(mut self) -> Vec<u8> {
        let sum = checksum(&self.0);
        self.u64(sum);
        self.0
    }
}

/// What is left to read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The fields of what [`Writer::sealed`] has made.
    pub(super) fn unsealed(bytes: &'a [u8]) -> Result<Reader<'a>, FormatError> {
        let (fields, sum) = bytes.split_last_chunk().ok_or(FormatError::Length)?;
        match checksum(fields) == u64::from_le_bytes(*sum) {
            true => Ok(Reader(fields)),
            false => Err(FormatError::Checksum),
        }
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(FormatError::Length)?;
        self.0 = rest;
        Ok(*chunk)
    }

    pub(super) fn u8(&mut self) -> Result<u8, FormatError> {
        self.chunk().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, FormatError> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, FormatError> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, FormatError> {
        self.chunk().map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Result<String, FormatError> {
        let len = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(len).ok_or(FormatError::Length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| FormatError::Value("text"))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], FormatError> {
        let len = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(FormatError::Length)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Nothing is left.
    pub(super) fn end(&self) -> Result<(), FormatError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(FormatError::Length),
        }
    }

    pub(super) fn magic(&mut self, magic: [u8; 4]) -> Result<(), FormatError> {
        match self.chunk::<4>()? == magic {
            true => Ok(()),
            false => Err(FormatError::Magic),
        }
    }
}
