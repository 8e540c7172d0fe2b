// Package dnscache remembers the addresses of host names, and connects to them.
//
// Package net asks DNS on every dial. In containers that costs 20 to 90 ms, up to ten questions for one name, and makes
// each failure of the resolver a failure of the caller. A [Resolver] asks as often as the answers' TTLs say, ahead of
// their end and behind the reader's back; it keeps good answers through failures; and it asks for the right name first.
// A [Dialer] races the addresses, so that dead ones cost a fraction of a second.
//
// # Use
//
//	res := new(dnscache.Resolver)              // the zero value works
//	defer res.Close()
//	transport := &http.Transport{DialContext: res.DialContext}
//
// Under that transport every new connection uses remembered addresses, and nothing else changes. A [Dialer] has more to
// set. Use [Resolver.Lookup] for addresses alone, [Resolver.Pin] for names that must never wait, [Resolver.Watch] to
// follow a name, and [Resolver.Explain] to see, at night, why a name is answered as it is.
//
// # What a reader gets
//
// A and AAAA are two records, each with its own life and its own refresh. With TTL t between MinTTL and MaxTTL:
//
//	before the last fifth of t (at least 1 s, at most 30 s)   the record: a hit
//	from there to its end                                     the record; a refresh runs behind it
//	up to min(t, 30 s) past the end                           the old record at once; a refresh runs behind it
//	up to MaxStale past the end                               waits for the refresh, at most 500 ms and a quarter of the
//	                                                          caller's time; then the old record
//	past the end, the last try failed, the next not due       the old record at once
//	later, or never known                                     waits for the answer, within the caller's context
//
// A result tells what it is: [Result.Stale], [Result.Held], [Result.Partial].
//
// # What an answer does
//
//	answer                              with a good record, fresh or stale      with nothing
//	addresses                           replace it                              are stored
//	no such name, no address of         hold: it stays for Hold, and is asked   is stored for 1 to 5 s, by the zone's
//	either family                       again after 2, 4, 8, 16 s               start of authority
//	no address of one family            that family is empty                    same
//	SERVFAIL, REFUSED, garbage,         stays; the next try comes after 1, 2,   the error is remembered, and tried again
//	silence                             4, 8, 16, 30 s                          at the same pace
//	no file, memory or port here        stays; the next reader asks             the error goes to the caller, and is
//	                                                                            forgotten
//
// # Which name is asked
//
// The search list of resolv.conf makes ten questions of one: with "ndots:5", as Kubernetes sets it, api.example.com is
// tried under four suffixes first. In mode [Auto] a name of two dots or more is asked as it stands, and the list follows
// only if it does not exist. Whatever full name answers is asked alone from then on; the list is walked again after
// 5 minutes, when the answer turns negative, and when resolv.conf or the hosts file change. Where a private search domain
// shadows public names of two dots or more, choose [Strict].
//
// # How it asks
//
// The questions are put by package net's own resolver: hosts file, nsswitch, servers, TCP after truncation and the rest
// are its own. A tap on its sockets reads the replies along, for what it does not tell: TTLs, response codes, and who
// owns an address. A reply that does not answer the question is never used: addresses that belong to other names are
// ignored, although package net would take them. A server that has been silent twice rests while another answers.
//
// # Limits and costs
//
// A hit takes some 15 ns, without a lock, an allocation or a reading of the clock: timers move records from stage to stage.
// At most MaxNames names are kept, about 3 KiB each, 128 addresses of a family; a name that is not used is forgotten 5
// minutes after its end, and costs no question until then. Hold and stale answers can hide a real deletion, for 30 s and
// for an hour: both are bounded, counted and flagged. There are no SRV, HTTPS or SVCB records, no DNS over TLS or HTTPS,
// no DNSSEC.
package dnscache
