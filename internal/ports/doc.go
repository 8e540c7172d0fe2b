// Package ports keeps the ledger of local ports: how many a destination holds, how many there are, and when the next one
// comes free. It opens no connection and knows no HTTP.
//
// A NAT, or the kernel, keeps a port for a while after its connection has closed, and a NAT that has none left says nothing: it
// drops the SYN. So the ports to each destination, an IP address and port, are counted here before the SYN goes out:
//
//	held = dialing + open + closed within their hold
//
// # Use
//
//	ledger := ports.New()                                            // one per client
//	ticket, warning, err := ledger.Admit(address, policy, time.Now()) // before a connect; err is an *Error
//	ticket.Opened()                                                  // it connected; or
//	ticket.Failed(err, time.Now())                                   // it did not
//	ticket.Closed(ports.ClosedByUs, time.Now())                      // when the socket is closed
//
// A [Policy] is one upstream's settings. Its rules join those that a destination has met from others, and the tightest speaks,
// since ports are shared whoever uses them. A rule met late does not know what closed before.
//
// # What a rule does
//
// Below Warn of its budget nothing. From Warn on, [Ledger.Admit] gives a [Warning], at most one a minute and destination. At Admit
// it refuses, with the time until enough ports are free. When the kernel itself has no port, [Ledger.NoPort] closes the
// destination for a second.
//
// # Cost
//
// One mutex, a leaf, held for moments. The whole life of a connection in the ledger takes about 90 ns and allocates nothing; a
// destination with one rule holds 0.9 KiB (BenchmarkConnection, BenchmarkMemory; Go 1.26.8 on linux/amd64). A request costs nothing.
// At most 1,024 destinations are told apart; what comes beyond is counted together and not limited.
//
// # Files
//
//	rule.go      what a rule says                 ring.go         ports that cool, events per second
//	presets.go   the dated table                  destination.go  one destination: pure, time is an argument
//	linux.go     what this system allows          ledger.go       the lock, and who is told apart
//	ending.go    how a connection ended           ticket.go       one connection in the ledger
package ports
