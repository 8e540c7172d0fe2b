package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const (
	maxJSON      = 8 << 20 // bytes of a body that GetJSON reads
	maxErrorBody = 4 << 10 // bytes of a body that an Error keeps
)

// GetJSON gets a URL and decodes the JSON in its body as a T. A status outside 2xx is an [*Error] that holds the status
// and the first 4 KiB of the body. A body above 8 MiB, and anything after the JSON value, is an error too. The body is read
// to its end, so that the connection can be used again.
func GetJSON[T any](ctx context.Context, c *Client, url string) (T, error) {
	var value T
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return value, &Error{Method: http.MethodGet, Reason: ReasonInvalidRequest, Err: withoutURL(err), Report: Report{neverSent: true}}
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return value, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return value, statusError(resp)
	}
	if err := decodeJSON(resp.Body, &value); err != nil {
		var zero T
		return zero, jsonError(resp, err)
	}
	return value, nil
}

// statusError is the error for an answer that is none.
func statusError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	e := &Error{Reason: ReasonStatus, Body: body, Err: err}
	e.complete(ReportOf(resp), nil)
	if n := len(e.Report.Attempts); n > 0 {
		e.Endpoint = e.Report.Attempts[n-1].Endpoint
	}
	return e
}

// jsonError says which call brought the JSON that is none; an error of the call itself says it already.
func jsonError(resp *http.Response, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	r := ReportOf(resp)
	return fmt.Errorf("%s %s%s (upstream %s): decoding JSON: %w", r.Method, r.Host, r.Path, r.Upstream, err)
}

// decodeJSON reads one JSON value and the end of the body.
func decodeJSON(body io.Reader, value any) error {
	limited := &io.LimitedReader{R: body, N: maxJSON + 1}
	dec := json.NewDecoder(limited)
	err := dec.Decode(value)
	if err == nil {
		if _, err = dec.Token(); err == nil {
			err = errors.New("data after the JSON value")
		}
	}
	switch {
	case limited.N <= 0:
		return fmt.Errorf("body is larger than %d bytes", maxJSON)
	case err == io.EOF && dec.InputOffset() > 0:
		return nil
	}
	return err
}
