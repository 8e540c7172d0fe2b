// Package facade makes one answer out of many calls: typed, in parallel, under one deadline, honest about what is
// missing.
//
// A page needs a user, their recommendations and some prices. [Do] runs a function of yours in a [Scope]; [Go] starts a
// part in it and gives back a [Future]; [Future.Get] waits for the part. That is all of the simplest page:
//
//	page, rep, err := facade.Do(ctx, facade.Options{Name: "page"}, func(ctx context.Context, s *facade.Scope) (Page, error) {
//		user := facade.Go(s, "user", getUser)
//		news := facade.Go(s, "news", getNews)
//		u, err := user.Get(ctx)
//		if err != nil {
//			return Page{}, err
//		}
//		n, err := news.Get(ctx)
//		return Page{u, n}, err
//	})
//
// What comes next, in the order in which pages grow:
//
//   - A part that needs another one calls Get inside its function, with the context it was given. It holds none of the
//     run's permits meanwhile. A circle of waiting parts is found by the Get that would close it.
//   - A part that the page can do without is Optional: when it fails, is late or panics, its Fallback takes its place and
//     the [Report] says so. Every other part is required: its failure ends the run at once.
//   - [Each] makes one part per element of a slice. A [Batch] gathers the keys that parts ask for into few calls. A
//     [Share] lets parts of different runs wait for the same call.
//   - [Stream] yields the parts as they come; [Handler] serves a run over HTTP.
//
// # Time
//
// A run ends a little before its caller's deadline (Options.Reserve), so that the caller still has time to answer; the
// contexts of its parts end a little earlier still (Options.Grace), so that there is time to fall back. With 500 ms left,
// parts have 465 and Do returns within 475.
//
// # The end
//
// Do returns the first failure in time, not the "context canceled" that it caused in other parts; context.Cause gives
// the parts the same error. When Do returns, its parts have returned. A function that does not heed its context is the
// one exception: Do waits for it no longer than the grace, counts it in [Report].Stragglers and drops its result.
//
// # Limits
//
// The facade does not retry, cache or make requests: parts are plain functions, over HTTP, SQL or anything else. It
// shares nothing between parts; what the closures share, they must guard. It sees waiting only where Get, or a batch, is
// called with the context of the part; waiting by other means is ended by the deadline alone.
//
// # Cost
//
// A run of eight parts costs less than 30 allocations and 5 KB above the calls themselves.
package facade
