// Package bench compares Sortie with what people use today, in the same run and on the same machine. It holds benchmarks
// only:
//
//	go test -bench . ./bench
//
// The output is in the standard format, so benchstat reads it. Machines differ and are noisy; what counts is the ratio
// between neighbours, and the allocations.
package bench
