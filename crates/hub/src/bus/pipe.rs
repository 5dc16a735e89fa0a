//! Bytes in and out of one socket, without a buffer per connection while nothing moves.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::ready;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is read at a time.
const CHUNK: usize = 16 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// What came next; empty at the end. What is read lands in a buffer of the thread, so that waiting costs no memory.
pub(super) async fn read<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Vec<u8>> {
    poll_fn(|cx| {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut *reader).poll_read(cx, &mut buffer))?;
            Ok(buffer.filled().to_vec()).into()
        })
    })
    .await
}

/// Writes some of it. With nothing left to write, waits until the socket has all of it: TLS keeps a part back.
pub(super) async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    bytes: &[u8],
) -> io::Result<usize> {
    if bytes.is_empty() {
        poll_fn(|cx| Pin::new(&mut *writer).poll_flush(cx)).await?;
        return Ok(0);
    }
    let written = poll_fn(|cx| Pin::new(&mut *writer).poll_write(cx, bytes)).await?;
    if written == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, BufWriter, duplex};

    use super::*;

    #[tokio::test]
    async fn what_a_layer_below_kept_back_goes_out_once_nothing_is_left_to_write() {
        let (near, mut far) = duplex(64);
        let mut writer = BufWriter::new(near);
        assert_eq!(write(&mut writer, b"x\n").await.unwrap(), 2);
        assert_eq!(writer.buffer(), b"x\n", "it keeps it back");
        assert_eq!(write(&mut writer, b"").await.unwrap(), 0);
        let mut came = [0; 2];
        far.read_exact(&mut came).await.unwrap();
        assert_eq!(&came, b"x\n");
    }
}
