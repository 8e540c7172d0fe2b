package backoff_test

import (
	"testing"
	"time"

	"github.com/sortie-go/sortie/internal/backoff"
)

var noon = time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"0":                                 0,
		"1":                                 time.Second,
		" 120\t":                            2 * time.Minute,
		"0000000005":                        5 * time.Second,
		"9223372036":                        9223372036 * time.Second,
		"Mon, 04 May 2026 12:00:02 GMT":     2 * time.Second,
		"Mon, 04 May 2026 13:00:00 GMT":     time.Hour,
		"Monday, 04-May-26 12:01:00 GMT":    time.Minute,
		"Wednesday, 05-May-76 12:00:00 GMT": 0, // more than 50 years ahead means 1976
		"Saturday, 04-May-75 12:00:00 GMT":  noon.AddDate(49, 0, 0).Sub(noon),
		"Mon May  4 12:00:30 2026":          30 * time.Second,
	} {
		got, ok := backoff.RetryAfter(value, noon)
		if got != want || ok != (want > 0 || value == "0") {
			t.Errorf("%q: %v, %v, want %v", value, got, ok, want)
		}
	}
}

func TestUnusableRetryAfterIsNone_retryablehttp295(t *testing.T) {
	for _, value := range []string{
		"", " ", "-5", "+5", "abc", "1.5", "5s", "1 2", "0x10", "1e3", "５",
		"99999999999999999999", "9223372037", "9223372036854775808",
		"Mon, 04 May 2026 12:00:00 GMT", // now
		"Mon, 04 May 2026 11:59:59 GMT",
		"Thu, 01 Jan 1970 00:00:00 GMT",
		"Mon, 04 May 2026 12:00:02 PST",
		"Mon, 04 May 2026 12:00:02 +0200",
		"Mon, 34 May 2026 12:00:02 GMT",
		"2026-05-04T12:00:02Z",
		"Mon, 04 May 2026 12:00:02 GMT, 5",
	} {
		if got, ok := backoff.RetryAfter(value, noon); ok {
			t.Errorf("%q: %v, want none", value, got)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"120", "-1", "99999999999999999999", "Mon, 04 May 2026 12:00:02 GMT", "Monday, 04-May-26 12:01:00 GMT",
		"Mon May  4 12:00:30 2026", "Tuesday, 29-Feb-00 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		f.Add(value, noon.Unix())
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix%(1<<37), 0).UTC() // some 4,000 years either way
		d, ok := backoff.RetryAfter(value, now)
		if d < 0 || !ok && d != 0 {
			t.Errorf("%q at %v: %v, %v", value, now, d, ok)
		}
		if _, granted := usual.Next(1, d); granted != (d <= usual.MaxWish) {
			t.Errorf("%q at %v: %v granted: %v", value, now, d, granted)
		}
	})
}
