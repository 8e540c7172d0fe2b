// Package limit bounds how many calls to one upstream run at a time, and how many wait for their turn.
//
// A call holds a slot from [Limit.Acquire] to [Limit.Release], its body included. When all are taken, a bounded number of
// callers wait, first come, first served, and no longer than each is willing to; one more is refused at once. A short
// queue smooths a burst; a long one only makes everybody late.
//
// The number of slots is fixed, or moved by [Adaptive]: a gradient of the time to headers against its own slow average,
// under an absolute bound. The average says what is normal, and without the bound it would learn an outage as normal too
// (Netflix/concurrency-limits#137).
//
// A dry run ([Config.Shadow]) grants every slot and tells what it would have said.
package limit
