// Package budget bounds the extra load that retries and hedges put on an upstream, as a share of the calls made to it.
//
// Each call deposits one token. Each extra attempt costs as many as there are calls to one extra: five at 20 %. Both
// count for one window of time, after which they are forgotten. A reserve, so many extra attempts a second, lets retries
// work at a rate of calls at which a share would be less than one; hedges, which only save time, have no part in it.
//
// The calls are the measure and not the attempts in flight, so that the budget does not shrink while calls turn into
// retries (envoyproxy/envoy#30205), and it is time that restores it and not success, so that it works at one call a
// second. What is denied is an extra attempt; nothing that runs is touched.
package budget
