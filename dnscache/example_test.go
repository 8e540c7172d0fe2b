package dnscache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/sortie-go/sortie/dnscache"
	"github.com/sortie-go/sortie/sortietest"
)

// shop is a web server that the scripted DNS knows as shop.example.
func shop() (dns *sortietest.DNS, url string, stop func()) {
	dns = new(sortietest.DNS)
	dns.Host("shop.example", 30, "127.0.0.1")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	return dns, "http://shop.example:" + port, srv.Close
}

// Under a plain http.Transport each new connection takes its address from memory.
func Example_transport() {
	dns, url, stop := shop()
	defer stop()

	res := &dnscache.Resolver{DialDNS: dns.DialContext} // leave DialDNS out: the examples have a DNS server of their own
	defer res.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: res.DialContext, DisableKeepAlives: true}}

	for range 5 {
		resp, err := client.Get(url)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	fmt.Println("questions:", res.Stats().Questions)
	// Output: questions: 2
}

// A gRPC client takes a dial function of its own type. Give the target as "passthrough:///shop.example:443", so that the
// name arrives here unresolved:
//
//	grpc.NewClient(target, grpc.WithContextDialer(dial))
func Example_grpc() {
	dns, _, stop := shop()
	defer stop()
	res := &dnscache.Resolver{DialDNS: dns.DialContext}
	defer res.Close()

	dialer := &dnscache.Dialer{Resolver: res, Timeout: 3 * time.Second}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}

	_, err := dial(context.Background(), "missing.example:443")
	if e, ok := errors.AsType[*dnscache.Error](err); ok {
		fmt.Println(e.Name, e.Kind)
	}
	// Output: missing.example not_found
}

func ExampleResolver_Lookup() {
	dns, _, stop := shop()
	defer stop()
	res := &dnscache.Resolver{DialDNS: dns.DialContext}
	defer res.Close()

	result, err := res.Lookup(context.Background(), "shop.example")
	if err != nil {
		fmt.Println(err)
		return
	}
	for addr := range result.All() {
		fmt.Println(addr)
	}
	fmt.Println("asked for", result.Asked(), "which is good for", result.TTL().Round(10*time.Second))
	// Output:
	// 127.0.0.1
	// asked for shop.example. which is good for 30s
}

// Watch follows a name. What an answer no longer lists may be let go of only if the answer is fresh.
func ExampleResolver_Watch() {
	dns, _, stop := shop()
	defer stop()
	res := &dnscache.Resolver{DialDNS: dns.DialContext}
	defer res.Close()

	told := make(chan dnscache.Update, 16)
	unwatch := res.Watch("shop.example", func(u dnscache.Update) { told <- u })
	u := <-told
	unwatch()
	fmt.Println(u, "fresh:", u.Fresh)
	// Output: 127.0.0.1 fresh: true
}

func ExampleResolver_Explain() {
	dns, _, stop := shop()
	defer stop()
	res := &dnscache.Resolver{Mode: dnscache.Absolute, Family: dnscache.IPv4, DialDNS: dns.DialContext}
	defer res.Close()

	if _, err := res.Lookup(context.Background(), "shop.example"); err != nil {
		fmt.Println(err)
	}
	x := res.Explain("shop.example")
	fmt.Println(x.Name, x.Result, x.Families[0].Stage, "asked:", x.List)
	// Output: shop.example 127.0.0.1 valid asked: [shop.example.]
}

// Admit sees each address before it is dialled, and can refuse it.
func ExampleDialer() {
	dns, _, stop := shop()
	defer stop()
	res := &dnscache.Resolver{DialDNS: dns.DialContext}
	defer res.Close()

	errLoopback := errors.New("no connections to this machine")
	dialer := &dnscache.Dialer{Resolver: res, Admit: refuseLoopback(errLoopback)}
	_, err := dialer.DialContext(context.Background(), "tcp", "shop.example:80")
	fmt.Println(errors.Is(err, errLoopback))
	// Output: true
}

func refuseLoopback(reason error) func(context.Context, netip.AddrPort) (func(net.Conn, error), error) {
	return func(_ context.Context, addr netip.AddrPort) (func(net.Conn, error), error) {
		if addr.Addr().IsLoopback() {
			return nil, reason
		}
		return nil, nil
	}
}
