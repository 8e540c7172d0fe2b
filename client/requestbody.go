package client

import (
	"io"
	"sync"
)

// A requestBody is the caller's body on its way to the wire. It is closed once, whoever asks, and remembers whether a
// failure of the attempt was the body's own.
type requestBody struct {
	inner  io.ReadCloser
	length int64 // as the request declared it; 0 or less: unknown

	mu     sync.Mutex // net/http may close it while it reads
	read   int64
	eof    bool
	err    error
	closed bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	switch {
	case err == io.EOF:
		b.eof = true
	case err != nil && !b.closed: // an error after Close is the answer to the closing
		b.err = err
	}
	return n, err
}

func (b *requestBody) Close() error {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	return b.inner.Close()
}

// failed reports that the body could not be sent as the request declared it: it returned an error, or had another length.
func (b *requestBody) failed() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil || b.length > 0 && (b.read > b.length || b.eof && b.read < b.length)
}
