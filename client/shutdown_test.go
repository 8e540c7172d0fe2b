package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/client"
)

// slowBody sends its headers at once and its body after a while, or nothing more when the client leaves.
func slowBody(after time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(after):
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	}
}

func TestShutdownWaitsForOpenBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(2*time.Second))
		c := lab.client(client.Policy{})
		resp := get(t, c, up)

		start := time.Now()
		ended := make(chan error)
		go func() { ended <- c.Shutdown(context.Background()) }()
		synctest.Wait()
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); !errors.Is(err, client.ErrDraining) || !client.Refused(err) || !client.NeverSent(err) {
			t.Errorf("a new call: %v", err)
		}
		if got := readAll(t, resp); got != "done" {
			t.Errorf("read %q", got)
		}
		if err := <-ended; err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("Shutdown returned %v after %v", err, time.Since(start))
		}
		if _, err := c.Do(newRequest(t, t.Context(), "GET", up, nil)); !errors.Is(err, client.ErrClosed) || client.ReasonOf(err) != client.ReasonDraining {
			t.Errorf("a call after the end: %v", err)
		}
	})
}

func TestShutdownCutsWhatOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Hour))
		lab.serve("10.0.0.2:80", hangs)
		var seen reports
		c := lab.client(client.Policy{}, seen.config)
		reading := get(t, c, up)
		unread := get(t, c, up)
		read, waited := make(chan error, 1), make(chan error, 1)
		go func() { _, err := io.ReadAll(reading.Body); read <- err }()
		go func() {
			_, err := c.Do(newRequest(t, context.Background(), "GET", "http://10.0.0.2/", nil))
			waited <- err
		}()
		time.Sleep(time.Second)

		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := c.Shutdown(ctx)
		if time.Since(start) != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v after %v", err, time.Since(start))
		}
		for _, part := range []string{"up: 2 open, oldest 4s", "_unlisted: 1 open, oldest 4s"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		for _, err := range []error{<-read, <-waited} {
			if !errors.Is(err, client.ErrDraining) || client.ReasonOf(err) != client.ReasonDraining {
				t.Errorf("a call that was cut: %v", err)
			}
		}
		if _, err := unread.Body.Read(make([]byte, 1)); !errors.Is(err, client.ErrDraining) {
			t.Errorf("a body that was cut: %v", err)
		}
		if len(seen.all) != 3 {
			t.Errorf("%d reports", len(seen.all))
		}
		if again := c.Shutdown(context.Background()); again == nil || !errors.Is(again, client.ErrClosed) {
			t.Errorf("Shutdown again: %v", again)
		}
	})
}

func TestTheLeastPatientCallerOfShutdownDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lab := newLab(t)
		lab.serve("10.0.0.1:80", slowBody(time.Hour))
		c := lab.client(client.Policy{})
		get(t, c, up)
		first := make(chan error)
		go func() { first <- c.Shutdown(context.Background()) }()
		time.Sleep(time.Second)
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-first; err == nil || !strings.Contains(err.Error(), "up: 1 open, oldest 1s") {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func TestCloseLeavesNothing_restyPR1198(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a goroutine left over fails the bubble
		lab := newLab(t)
		lab.serve("10.0.0.1:80", answers("x"))
		for range 100 {
			c := lab.client(client.Policy{Timeout: &client.Timeout{}})
			readAll(t, get(t, c, up))
			get(t, c, up) // not closed
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
