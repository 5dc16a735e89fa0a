//! The end of an output.

/// Keeps so many bytes of the end, and none of what came before.
#[derive(Debug, Clone)]
pub struct Tail {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Tail {
    pub fn new(bytes_max: usize) -> Tail {
        Tail {
            bytes: Vec::new(),
            bytes_max,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let over = self.bytes.len().saturating_sub(self.bytes_max);
        self.bytes.drain(..over);
    }

    pub fn text(&self) -> Option<String> {
        (!self.bytes.is_empty()).then(|| String::from_utf8_lossy(&self.bytes).into_owned())
    }

    pub fn last_line(&self) -> Option<String> {
        let text = self.text()?;
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.map(str::to_owned)
    }
}
