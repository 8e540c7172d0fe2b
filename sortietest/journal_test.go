package sortietest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/sortietest"
)

func TestCounts(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("a"))
		c := up.Client()
		do(c, "GET", up.URL()+"/items/7?x=1", "")
		do(c, "GET", up.URL()+"/items/7", "")
		do(c, "POST", up.URL()+"/items", "seven")
		s := up.Stats()
		routes := fmt.Sprint(s.ByRoute)
		if want := "map[GET /items/7:2 POST /items:1]"; routes != want {
			t.Errorf("routes %v, want %v", routes, want)
		}
		s.ByRoute = nil
		if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", sortietest.Stats{
			Requests: 3, MaxInFlight: 1, BodyBytes: 5, Conns: 1, OpenConns: 1,
		}); got != want {
			t.Errorf("counts %s, want %s", got, want)
		}
	})
}

func TestRecordedRequest(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "catalog.example:80", sortietest.OK("a"))
		time.Sleep(time.Minute)
		req, _ := http.NewRequest("PUT", up.URL()+"/items/7%2F8?x=1", strings.NewReader("seven"))
		req.Header.Set("Idempotency-Key", "k")
		resp, err := up.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		r := up.Requests()[0]
		for _, is := range []struct{ what, got, want string }{
			{"method", r.Method, "PUT"},
			{"URL", r.URL.String(), "/items/7%2F8?x=1"},
			{"host", r.Host, "catalog.example"},
			{"proto", r.Proto, "HTTP/1.1"},
			{"header", r.Header.Get("Idempotency-Key"), "k"},
			{"body", string(r.Body), "seven"},
			{"conn", fmt.Sprint(r.Conn), "1"},
			{"time", r.Time.Format(time.TimeOnly), "00:01:00"},
			{"server name", r.ServerName, ""},
		} {
			if is.got != is.want {
				t.Errorf("%s %q, want %q", is.what, is.got, is.want)
			}
		}
		r.Body[0] = 'S'
		if got := up.Requests()[0].Body; string(got) != "seven" {
			t.Errorf("the caller changed the record to %q", got)
		}
	})
}

func TestKeepBody(t *testing.T) {
	for _, test := range []struct{ keep, want int }{{0, 64 << 10}, {10, 10}, {-1, 0}, {1 << 20, 100_000}} {
		up := &sortietest.Upstream{KeepBody: test.keep}
		up.Start(t)
		do(up.Client(), "POST", up.URL(), strings.Repeat("x", 100_000))
		if r := up.Requests()[0]; len(r.Body) != test.want || r.BodyBytes != 100_000 {
			t.Errorf("KeepBody %d keeps %d of %d bytes, want %d", test.keep, len(r.Body), r.BodyBytes, test.want)
		}
	}
}

func TestOnlyTheLatestRequestsAreKept(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80")
		c := up.Client()
		for i := range 1003 {
			wantAnswer(t, c, fmt.Sprintf("%s/%d", up.URL(), i), 200, "")
		}
		all := up.Requests()
		if len(all) != 1000 || all[0].URL.Path != "/3" || all[999].URL.Path != "/1002" {
			t.Errorf("%d requests, from %s to %s", len(all), all[0].URL, all[len(all)-1].URL)
		}
		s := up.Stats()
		if s.Requests != 1003 || len(s.ByRoute) != 1001 || s.ByRoute["other"] != 3 {
			t.Errorf("%d requests, %d routes, %d others", s.Requests, len(s.ByRoute), s.ByRoute["other"])
		}
	})
}

func TestInFlightRequestsAreSeenWithWhatHasArrived(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK(""))
		body, feed := io.Pipe()
		go up.Client().Post(up.URL(), "text/plain", body)
		feed.Write([]byte("half"))
		synctest.Wait()
		if r := up.Requests()[0]; string(r.Body) != "half" || r.BodyBytes != 4 || up.Stats().InFlight != 1 {
			t.Errorf("record %+v", r)
		}
		feed.CloseWithError(errors.New("enough"))
		synctest.Wait()
		if s := up.Stats(); s.InFlight != 0 || s.BodyBytes != 4 {
			t.Errorf("%+v after the client has given up", s)
		}
	})
}

func TestAwait(t *testing.T) {
	inMemory(t, func(t *testing.T, n *sortietest.Network) {
		up := n.NewUpstream(t, "10.0.0.1:80", sortietest.OK("").After(time.Minute))
		start := time.Now()
		time.AfterFunc(time.Second, func() { get(up.Client(), up.URL()) })
		await(t, up, func(s sortietest.Stats) bool { return s.Conns == 1 })
		wantTook(t, start, time.Second)
		await(t, up, func(s sortietest.Stats) bool { return s.Requests == 1 && s.InFlight == 0 })
		wantTook(t, start, time.Second+time.Minute)

		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		err := up.Await(ctx, func(s sortietest.Stats) bool { return s.Requests == 2 })
		wantError(t, err, enough)
	})
}
