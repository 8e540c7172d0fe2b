// Package fresh keeps one value that has to be fetched, and fetches it again before it ends.
//
// A DNS record and a set of temporary credentials are the same thing to it: something with an age, a source that takes
// time to answer and sometimes fails, and readers who must not wait for either. The owner of a [Value] supplies the
// question and the formulas (the interface [Owner]); the package supplies the mechanism:
//
//   - states: a value is valid, soft (a refresh is due), hard (readers wait a little for it) and expired, by instants
//     that the owner plans when the value arrives; timers move it, so that a reader needs no clock;
//   - flights: at most one question to the source at a time, on a context of its own. Readers join it and may leave it;
//   - failures: the held value stays, the next try is held back, and readers meanwhile get what is held or, with
//     nothing held, the one error of the last try;
//   - order: an older answer never replaces a newer one, and the owner hears of every change in order, outside locks;
//   - sources that ignore their deadline are left behind, counted, and never more than two.
//
// # How readers are served
//
//	state    meaning                     Get
//	cold     no value                    waits for the flight; between flights the last error, the same value to all
//	valid    before Plan.Soft            the value
//	soft     from Soft                   the value; a refresh is started behind it
//	hard     from Hard                   waits until Options.HardWait after the flight began, then the value; not at all
//	                                     while the last try failed and the next is not due
//	expired  from End                    as cold; up to Plan.Last the old value, once a flight begun after End has failed
//
// Who starts a flight: a reader who finds one due, a timer where the owner is eager, and [Value.Force]. A value that
// nobody reads and whose owner is not eager costs one timer and no question.
//
// # One flight
//
// The flight is a field beside the value, under the same mutex, and not a call of golang.org/x/sync/singleflight: "in
// flight", "published" and "next try" have to change in one step. With a group of its own there is a moment in which
// the answer is published and the group's key still taken, and a refresh that falls into it is lost; and a source that
// never returns would keep the key for ever.
package fresh
