package backoff

import (
	"math"
	"strings"
	"time"
)

// dateLayouts are the three forms of an HTTP-date (RFC 9110, 5.6.7), the one in use first. The zone is always GMT.
var dateLayouts = [...]string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	rfc850,
	time.ANSIC,
}

const (
	rfc850  = "Monday, 02-Jan-06 15:04:05 GMT"
	longest = len("Wednesday, 02-Jan-06 15:04:05 GMT")
)

// RetryAfter reads the value of a Retry-After field (RFC 9110, 10.2.3): seconds, or a date that is compared with now. It
// returns the time from now on, and false if the value says nothing usable: it is malformed, negative, in the past, or
// too large for a Duration.
func RetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if value == "" || len(value) > longest {
		return 0, false
	}
	if '0' <= value[0] && value[0] <= '9' {
		return seconds(value)
	}
	at, ok := date(value, now)
	if !ok || !at.After(now) {
		return 0, false
	}
	return at.Sub(now), true // Sub saturates
}

// seconds reads digits and nothing else: a sign, a fraction or a unit would be somebody's own dialect.
func seconds(value string) (time.Duration, bool) {
	n := int64(0)
	for _, c := range []byte(value) {
		if c < '0' || '9' < c {
			return 0, false
		}
		n = n*10 + int64(c-'0')
		if n > math.MaxInt64/int64(time.Second) {
			return 0, false
		}
	}
	return time.Duration(n) * time.Second, true
}

func date(value string, now time.Time) (time.Time, bool) {
	for _, layout := range dateLayouts {
		at, err := time.Parse(layout, value)
		if err != nil {
			continue
		}
		if layout == rfc850 {
			at = inCentury(at, now)
		}
		return at, true
	}
	return time.Time{}, false
}

// inCentury puts a date with a two-digit year where RFC 9110, 5.6.7 wants it: no more than 50 years ahead.
func inCentury(at, now time.Time) time.Time {
	century := (now.Year() - at.Year()) / 100 * 100
	for at = at.AddDate(century, 0, 0); !at.After(now.AddDate(-50, 0, 0)); {
		at = at.AddDate(100, 0, 0)
	}
	for at.After(now.AddDate(50, 0, 0)) {
		at = at.AddDate(-100, 0, 0)
	}
	return at
}
