// Package hedge decides when a second attempt is sent while the first is slow, and whether it may be.
//
// The wait before it is fixed, or it is the time within which all but the wanted extra load has been answered: to hedge
// 5 % of the calls is to wait for the 95th percentile of the last half minute. Where that is not known, or so long that a
// second attempt would hardly come first, there is no hedging.
//
// What the wait aims at, an account enforces: hedges are at most that share of the calls of the last ten seconds, with no
// reserve, and each must be granted by the budget that hedges share with retries as well. When an upstream slows down as a
// whole, every call outlives the wait, and the account is what keeps hedging from doubling the load.
package hedge
