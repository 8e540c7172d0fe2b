package sortietest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Delay is a TCP proxy that adds distance: a request sent through it and its answer take RTT longer than without, as
// if Target stood that far away. [NewDelay] starts one on the loopback interface; or fill in the fields and call
// [Delay.Start]. They must not change after that. The methods may be called from several goroutines at once.
//
// Everything is held back for half of RTT in each direction, bytes and closes alike. Bytes keep their order, and many
// may be on their way at a time: a long body takes one delay, not one for each piece.
type Delay struct {
	// Target is the "host:port" to forward to: [Upstream.Addr], or any other server's.
	Target string

	// RTT is the time added to a round trip. Zero adds none.
	RTT time.Duration

	// Connect is held back once more, on the first bytes of each connection. On the loopback interface connecting
	// takes no time however far Target pretends to be, since this machine's own kernel accepts; setting Connect to
	// RTT makes a new connection cost what it would. Zero is off.
	Connect time.Duration

	// Network is where to listen and where Target is; nil is the loopback interface. A [Network] can do without
	// Delay, see [Network.SetRTT].
	Network *Network

	// Address is the "host:port" to listen on. Empty is "127.0.0.1:0": any free port.
	Address string

	ln      net.Listener
	cancel  context.CancelFunc
	running sync.WaitGroup

	open openConns

	mu    sync.Mutex
	stats DelayStats
}

// DelayStats counts the connections a [Delay] has forwarded.
type DelayStats struct {
	Conns     int // accepted so far
	OpenConns int // accepted and not yet at their end
}

// NewDelay starts a proxy to target, "host:port", on a free port of the loopback interface. It is closed when the
// test ends.
func NewDelay(tb TB, target string, rtt time.Duration) *Delay {
	tb.Helper()
	d := &Delay{Target: target, RTT: rtt}
	d.Start(tb)
	return d
}

// Start listens and forwards until the test ends or [Delay.Close] is called. If it cannot, the test fails at once.
func (d *Delay) Start(tb TB) {
	tb.Helper()
	if err := d.Listen(); err != nil {
		tb.Fatalf("sortietest: %v", err)
		return
	}
	tb.Cleanup(d.Close)
}

// Listen is [Delay.Start] for programs and for TestMain, where no test is at hand: the caller closes.
func (d *Delay) Listen() error {
	switch {
	case d.ln != nil:
		return errors.New("delay started twice")
	case d.RTT < 0 || d.Connect < 0:
		return errors.New("delay has a negative RTT or Connect")
	}
	ln, err := d.Network.listen(d.Address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends with Close, as connections belong to the proxy
	d.ln, d.cancel = ln, cancel
	d.running.Go(func() { d.accept(ctx) })
	return nil
}

// Close closes the port and all connections and waits until nothing of the proxy runs any more. Closing again, or
// closing what was never started, does nothing.
func (d *Delay) Close() {
	if d.ln == nil {
		return
	}
	d.ln.Close()
	d.cancel()
	d.open.close()
	d.running.Wait()
}

// Addr returns the "host:port" it listens on, empty before it is started.
func (d *Delay) Addr() string {
	if d.ln == nil {
		return ""
	}
	return d.ln.Addr().String()
}

// URL returns "http://" and Addr. For a target that speaks TLS use Addr, and the scheme and server name it expects.
func (d *Delay) URL() string { return "http://" + d.Addr() }

// Stats returns the counts as they are now.
func (d *Delay) Stats() DelayStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

func (d *Delay) accept(ctx context.Context) {
	for {
		near, err := d.ln.Accept()
		if err != nil {
			return
		}
		if !d.open.hold(near) {
			return
		}
		d.count(1)
		d.running.Go(func() {
			defer d.count(-1)
			d.forward(ctx, near)
		})
	}
}

func (d *Delay) count(open int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.OpenConns += open
	d.stats.Conns += max(open, 0)
}

// forward carries one connection. If Target cannot be reached, the client sees a reset: its own dial succeeded.
func (d *Delay) forward(ctx context.Context, near net.Conn) {
	defer d.open.drop(near)
	far, err := dialTarget(ctx, d.Network, d.Target)
	if err != nil || !d.open.hold(far) {
		resetConn(near)
		return
	}
	defer d.open.drop(far)
	var both sync.WaitGroup
	both.Go(func() { carry(ctx, far, near, d.RTT/2, d.Connect) })
	both.Go(func() { carry(ctx, near, far, d.RTT-d.RTT/2, 0) })
	both.Wait()
}

// parcel is bytes on their way, or the end of them.
type parcel struct {
	bytes []byte
	err   error
	due   time.Time
}

// inTransit is how many parcels may be on their way in one direction, 16 MiB if they are full. A sender who is faster
// waits.
const inTransit = 1024

// carry takes what comes from src to dst, each byte and the end after delay, the first ones after extra more.
func carry(ctx context.Context, dst, src net.Conn, delay, extra time.Duration) {
	parcels := make(chan parcel, inTransit)
	var sender sync.WaitGroup
	sender.Go(func() { deliver(ctx, dst, src, parcels) })
	defer sender.Wait()
	defer close(parcels)
	until := time.Now().Add(extra) // nothing arrives before
	buf := make([]byte, piece)
	for {
		n, err := src.Read(buf)
		due := time.Now().Add(delay)
		if first := until.Add(delay); due.Before(first) {
			due = first
		}
		select {
		case parcels <- parcel{bytes.Clone(buf[:n]), err, due}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// deliver hands parcels to dst when they are due. If that fails, src learns it by a reset.
func deliver(ctx context.Context, dst, src net.Conn, parcels <-chan parcel) {
	broken := false
	for p := range parcels {
		if broken || !sleepUntil(ctx, p.due) {
			continue
		}
		if _, err := dst.Write(p.bytes); err != nil {
			resetConn(src)
			broken = true
			continue
		}
		switch {
		case p.err == io.EOF:
			_ = closeWrite(dst) // if it is closed already, so much the better
		case p.err != nil:
			resetConn(dst)
		}
	}
}

func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
