// Package backoff says how long to wait before a call is tried again: a random wait that grows with each try, joined with
// what the server asked for.
//
// The waits have full jitter: the n-th is drawn evenly between nothing and a ceiling that doubles up to a cap. Clients
// that failed together then come back spread over the whole interval, and not in waves. A server's wish is a lower bound
// and is spread too, upwards only, since coming earlier than asked is what it asked us not to do.
//
// Everything here is a function of its arguments and of chance: nothing sleeps, keeps state or reads the clock.
package backoff
