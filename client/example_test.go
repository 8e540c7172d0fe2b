package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/metrics"
)

type product struct {
	ID   int
	Name string
}

// catalog is a server for the examples.
func catalog() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/items/7":
			fmt.Fprint(w, `{"ID": 7, "Name": "lamp"}`)
		case "/slow":
			<-r.Context().Done()
		default:
			http.Error(w, "no such item", http.StatusNotFound)
		}
	}))
}

// A service names its upstreams once. The code that calls them knows only their logical URLs.
func Example() {
	server := catalog()
	defer server.Close()

	c, err := client.New(client.Config{
		Side: client.Internal, // found out by itself in Kubernetes
		Upstreams: []client.Upstream{{
			Name:     "catalog",
			Hosts:    []string{"api.shop.example"},
			Internal: []string{server.URL}, // such as http://catalog.shop.svc.cluster.local:8080
			External: []string{"https://api.shop.example"},
			Policy:   client.Policy{Timeout: &client.Timeout{}}, // 15 s in all, 5 s an attempt
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	item, err := client.GetJSON[product](context.Background(), c, "https://api.shop.example/items/7")
	fmt.Println(item, err)
	fmt.Println("for the browser:", c.URL("catalog", client.External, "/items/7"))
	// Output:
	// {7 lamp} <nil>
	// for the browser: https://api.shop.example/items/7
}

// Anything that takes an http.Client or an http.RoundTripper runs on top.
func ExampleClient_HTTP() {
	server := catalog()
	defer server.Close()
	c, err := client.New(client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	resp, err := c.HTTP().Get(server.URL + "/items/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: {"ID": 7, "Name": "lamp"} <nil>
}

// The report of a call tells which way it went and where its time did.
func ExampleReportOf() {
	server := catalog()
	defer server.Close()
	c, err := client.New(client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	req, err := http.NewRequest(http.MethodGet, server.URL+"/items/7", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := c.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()

	r := client.ReportOf(resp)
	fmt.Println(r.Upstream, r.Reason, r.Status, len(r.Attempts))
	for phase := range r.Account.All() {
		if phase != metrics.PhaseOther {
			fmt.Println("  spent time in", phase)
		}
	}
	fmt.Println("every moment accounted for:", r.Account.Sum() == r.Duration)
	// Output:
	// _unlisted ok 200 1
	//   spent time in acquire
	//   spent time in connect
	//   spent time in write
	//   spent time in server
	//   spent time in body
	//   spent time in caller
	// every moment accounted for: true
}

// An error says why, and whether it is safe to try again.
func ExampleError() {
	server := catalog()
	gone := server.URL
	server.Close()
	c, err := client.New(client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.HTTP().PostForm(gone+"/orders", url.Values{"item": {"7"}})
	if e, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(e.Reason)
	}
	fmt.Println("may even a POST be made again?", client.NeverSent(err))
	fmt.Println("answer 503 instead of 502?", client.Refused(err))
	// Output:
	// connect_refused
	// may even a POST be made again? true
	// answer 503 instead of 502? false
}

// One call may need other limits than the rest.
// A call for which there is no port fails at once, and says when one will be free. The budget here is that of a NAT that gives this
// process two ports to each destination and keeps a closed one for a minute.
func ExamplePortError() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // so that nothing can be used again
	}))
	defer server.Close()
	c, err := client.New(client.Config{
		Unlisted: client.Policy{Conns: &client.Conns{Ports: &client.Ports{Ports: 2, Hold: time.Minute, Warn: 1, Admit: 1}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for range 3 {
		resp, err := c.HTTP().Get(server.URL)
		if e, ok := errors.AsType[*client.PortError](err); ok {
			fmt.Printf("%d of %d ports held, retry in %v\n", e.Held, e.Budget, e.RetryAfter.Round(10*time.Second))
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 2 of 2 ports held, retry in 1m0s
}

func ExampleWithCall() {
	server := catalog()
	defer server.Close()
	c, err := client.New(client.Config{Unlisted: client.Policy{Timeout: &client.Timeout{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	ctx := client.WithCall(context.Background(), client.CallOptions{Attempt: 20 * time.Millisecond})
	_, err = client.GetJSON[product](ctx, c, server.URL+"/slow")
	fmt.Println(client.ReasonOf(err), client.IsTimeout(err))
	// Output: attempt_timeout true
}

// A service that stops lets its open calls end first.
func ExampleClient_Shutdown() {
	server := catalog()
	defer server.Close()
	c, err := client.New(client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	c.Drain() // at SIGTERM: calls still run
	_, err = client.GetJSON[product](context.Background(), c, server.URL+"/items/7")
	fmt.Println(err)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // after the server has shut down
	defer cancel()
	fmt.Println(c.Shutdown(ctx))
	_, err = client.GetJSON[product](context.Background(), c, server.URL+"/items/7")
	fmt.Println(errors.Is(err, client.ErrClosed))
	// Output:
	// <nil>
	// <nil>
	// true
}

// A configuration can be changed while the client works: connections, and all that was learnt, are kept.
func ExampleClient_Reload() {
	server := catalog()
	defer server.Close()
	cfg := client.Config{Side: client.External, Upstreams: []client.Upstream{{
		Name:     "catalog",
		Hosts:    []string{"api.shop.example"},
		External: []string{server.URL},
		Policy:   client.Standard(),
	}}}
	c, err := client.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	item, err := client.GetJSON[product](context.Background(), c, "http://api.shop.example/items/7")
	fmt.Println(item.Name, err)

	cfg.Side = client.Internal
	cfg.Upstreams[0].Policy.Limit.Max = -1
	fmt.Println(c.Reload(cfg)) // nothing has changed

	cfg.Side = client.External
	cfg.Upstreams[0].Policy.Limit.Max = 32
	cfg.Upstreams[0].Hosts = append(cfg.Upstreams[0].Hosts, "catalog.shop.example")
	fmt.Println(c.Reload(cfg))
	item, err = client.GetJSON[product](context.Background(), c, "http://catalog.shop.example/items/7")
	fmt.Println(item.Name, err)
	fmt.Println("connections made:", c.Stats().Upstreams[0].Endpoints[0].Created)
	// Output:
	// lamp <nil>
	// Side: cannot change during the life of a Client; make another one
	// Upstreams[0].Policy.Limit.Max: -1 is negative; use 0 for the default
	// <nil>
	// lamp <nil>
	// connections made: 1
}

// New names every mistake in a configuration at once.
func ExampleNew() {
	_, err := client.New(client.Config{
		Upstreams: []client.Upstream{{
			Name:     "Catalog",
			Hosts:    []string{"https://api.shop.example"},
			External: []string{"api.shop.example"},
			Policy:   client.Policy{Timeout: &client.Timeout{Total: time.Second, Attempt: 2 * time.Second}},
		}},
	})
	fmt.Println(err)
	// Output:
	// Upstreams[0].Name: "Catalog" must have 1 to 63 characters of a-z, 0-9, '.', '_', '-', and begin with a letter or digit
	// Upstreams[0].Hosts[0]: "https://api.shop.example" is more than a host; leave out scheme, user, path and query
	// Upstreams[0].External[0]: "api.shop.example" needs the scheme http or https, as in "https://api.shop.example"
	// Upstreams[0].Policy.Timeout.Attempt: 2s is longer than Total (1s), which ends the call first; make it shorter
}
