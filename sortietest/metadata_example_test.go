package sortietest_test

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

// A metadata service that is down for a while. In a test, Setenv points AWS clients to it:
//
//	md := sortietest.NewMetadata(t)
//	md.Setenv(t)
func ExampleMetadata() {
	t := newExample()
	defer t.end()
	md := sortietest.NewMetadata(t)

	ask := func() {
		resp, err := http.Get(md.ContainerURL())
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		fmt.Println(resp.StatusCode)
	}
	md.Outage(0, 4*time.Minute, sortietest.OnContainer, sortietest.MetadataFault{Status: 503})
	ask()
	md.FailNext(1, sortietest.OnContainer, sortietest.MetadataFault{Status: 429, RetryAfter: time.Second})
	ask()
	fmt.Println(md.Stats().Statuses[sortietest.OnContainer])
	// Output:
	// 503
	// 429
	// map[429:1 503:1]
}
