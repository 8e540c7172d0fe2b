package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sortie-go/sortie/client"
)

type item struct{ ID int }

func TestGetJSON(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept") != "application/json" {
				t.Errorf("Accept = %q", r.Header.Get("Accept"))
			}
			w.WriteHeader(code)
			w.Write([]byte(body))
		}
	}
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		want    int
		err     string // part of its text
		status  int
		body    int // bytes kept
	}{
		{name: "good", handler: status(200, `{"ID":7}`), want: 7},
		{name: "with the newline that encoders write", handler: status(201, "{\"ID\":7}\n"), want: 7},
		{name: "not found", handler: status(404, "no such item"), err: "status 404", status: 404, body: 12},
		{name: "a long error", handler: status(500, strings.Repeat("x", 1<<20)), err: "status 500", status: 500, body: 4 << 10},
		{name: "a redirect is no answer", handler: status(302, ""), err: "status 302", status: 302},
		{name: "trailing data", handler: status(200, `{"ID":7} {"ID":8}`), err: "data after the JSON value"},
		{name: "cut short", handler: status(200, `{"ID":`), err: "unexpected EOF"},
		{name: "empty", handler: status(200, ""), err: "EOF"},
		{name: "wrong type", handler: status(200, `{"ID":"seven"}`), err: "decoding JSON"},
		{name: "too large", handler: status(200, `{"ID":7,"X":"`+strings.Repeat("x", 9<<20)+`"}`), err: "larger than 8388608 bytes"},
		{name: "too large by white space", handler: status(200, `{"ID":7}`+strings.Repeat(" ", 9<<20)), err: "larger than 8388608 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lab := newLab(t)
				lab.serve("10.0.0.1:80", tc.handler)
				c := lab.client(client.Policy{Timeout: &client.Timeout{}})
				got, err := client.GetJSON[item](t.Context(), c, up+"/items/7?secret=1")
				if got.ID != tc.want || (err == nil) != (tc.err == "") {
					t.Fatalf("got %v, %v", got, err)
				}
				if err != nil && (!strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "secret")) {
					t.Errorf("err = %v", err)
				}
				var e *client.Error
				if errors.As(err, &e) && (e.Status != tc.status || len(e.Body) != tc.body || e.Upstream != "up" || e.Endpoint != "http://10.0.0.1") {
					t.Errorf("error %+v", e)
				} else if tc.status != 0 && e == nil {
					t.Errorf("err is %T", err)
				}
				settled(t, c)
			})
		})
	}
}

func TestGetJSONReusesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers(`{"ID":7}`))
		c := lab.client(client.Policy{})
		for range 20 {
			if _, err := client.GetJSON[item](t.Context(), c, up); err != nil {
				t.Fatal(err)
			}
		}
		if ep := c.Stats().Upstreams[0].Endpoints[0]; ep.Created != 1 || ep.Reused != 19 {
			t.Errorf("connections %+v", ep.ConnStats)
		}
	})
}
