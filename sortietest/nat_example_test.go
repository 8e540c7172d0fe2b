package sortietest_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

// A gateway with two ports, each kept for a minute, and a client that does not keep its connections: the third call hangs until
// the client gives up.
func ExampleNAT() {
	up := &sortietest.Upstream{Steps: []sortietest.Step{sortietest.OK("hello")}}
	if err := up.Listen(); err != nil {
		fmt.Println(err)
		return
	}
	defer up.Close()
	nat := &sortietest.NAT{Target: up.Addr(), Ports: 2, Hold: time.Minute}
	if err := nat.Listen(); err != nil {
		fmt.Println(err)
		return
	}
	defer nat.Close()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 200 * time.Millisecond}
	for range 3 {
		resp, err := client.Get(nat.URL())
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			fmt.Println("timeout")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println(nat.Stats().MostHeld, "ports held")
	// Output:
	// 200 OK
	// 200 OK
	// timeout
	// 2 ports held
}
