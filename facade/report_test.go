package facade_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sortie-go/sortie/facade"
)

var update = flag.Bool("update", false, "write the golden files")

func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", path, got)
	}
}

// storefront is a page with something of everything.
func storefront(t *testing.T) *facade.Report {
	prices := &facade.Batch[int, int]{Name: "prices", Load: (&backend{took: 40 * ms}).load}
	o := facade.Options{Timeout: 500 * ms}
	got := do(t.Context(), o, func(ctx context.Context, s *facade.Scope) (int, error) {
		user := facade.Go(s, "user", func(ctx context.Context) (int, error) {
			facade.Annotate(ctx, slog.Int("attempts", 2), slog.String("cache", "STALE"))
			return 1, sleep(ctx, 80*ms)
		})
		recs := facade.Go(s, "recs", func(ctx context.Context) (int, error) {
			if _, err := user.Get(ctx); err != nil {
				return 0, err
			}
			return 1, sleep(ctx, time.Second)
		}, facade.Part[int]{
			Optional: true, Timeout: 200 * ms,
			FallbackFunc: func(ctx context.Context, _ error) (int, error) { return 1, sleep(ctx, 30*ms) },
		})
		cart := facade.Each(s, "cart", []int{1, 2, 3}, func(ctx context.Context, id int) (int, error) {
			if err := sleep(ctx, 1*ms); err != nil { // for the order of declaration to be always the same
				return 0, err
			}
			p, err := prices.Get(ctx, id)
			if err != nil {
				return 0, err
			}
			return p, sleep(ctx, time.Duration(10*id)*ms)
		})
		facade.Each(s, "stock", []int{30, 50, 40}, func(ctx context.Context, n int) (int, error) {
			return n, sleep(ctx, time.Duration(n)*ms)
		}, facade.Part[int]{Limit: &facade.Limit{Max: 2}})
		facade.Go(s, "beacon", deaf(time.Second, 1))
		menu := facade.Go(s, "menu", failing(60*ms, errBoom), optional)
		sale := facade.Go(s, "sale", after(0, 1), facade.Part[int]{When: func(context.Context) (bool, error) { return false, nil }})
		if _, err := cart.Get(ctx); err != nil {
			return 0, err
		}
		last := facade.Go(s, "footer <b>&\"\n", after(50*ms, 1))
		return sum(ctx, menu, sale, recs, last)
	})
	if got.err != nil {
		t.Fatal(got.err)
	}
	time.Sleep(time.Second)
	return got.rep
}

func TestWaterfall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wantGolden(t, "storefront.txt", storefront(t).Waterfall())
	})
}

// A run that failed, without a name, with more than it lists.
func TestWaterfallOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rep, _ := facade.Do(t.Context(), facade.Options{Timeout: 500 * ms}, func(ctx context.Context, s *facade.Scope) (int, error) {
			facade.Each(s, "many", upTo(70), func(context.Context, int) (int, error) { return 1, nil })
			synctest.Wait()
			facade.Go(s, "cancelled", after(time.Second, 1))
			facade.Go(s, "a name that is longer than what there is room for", failing(50*ms, errBoom))
			return 0, sleep(ctx, time.Second)
		})
		text := rep.Waterfall()
		lines := strings.SplitAfter(text, "\n")
		wantGolden(t, "failure.txt", strings.Join(append(lines[:3], lines[66:]...), ""))
		var b bytes.Buffer
		if err := rep.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		wantHarmless(t, b.Bytes())
	})
}

func TestWriteSVG(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rep := storefront(t)
		var b bytes.Buffer
		if err := rep.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		wantGolden(t, "storefront.svg", b.String())
		wantHarmless(t, b.Bytes())
		if err := rep.WriteSVG(&fullDisk{}); !errors.Is(err, errBoom) {
			t.Error(err)
		}
	})
}

type fullDisk struct{}

func (*fullDisk) Write([]byte) (int, error) { return 0, errBoom }

// wantHarmless checks that a picture is well-formed, and has nothing in it that runs or leads out of it.
func wantHarmless(t *testing.T, svg []byte) {
	t.Helper()
	known := map[string]bool{"svg": true, "title": true, "g": true, "rect": true, "path": true, "text": true}
	for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := dec.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !known[start.Name.Local] {
			t.Fatal("element", start.Name.Local)
		}
		for _, a := range start.Attr {
			if a.Name.Local == "href" || a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Value, "url(") {
				t.Fatal("attribute", a)
			}
		}
	}
}

func FuzzPicture(f *testing.F) {
	f.Add("user", int64(5), int64(2), uint8(3))
	f.Add("<script>]]>\x00\xff\u202e", int64(-1), int64(1<<62), uint8(9))
	f.Fuzz(func(t *testing.T, name string, started, took int64, state uint8) {
		if started < 0 || took < 0 || started > 1<<50 || took > 1<<50 {
			t.Skip()
		}
		rep := &facade.Report{Name: name, Took: time.Duration(took), Parts: []facade.PartReport{
			{Name: name, State: facade.State(state), Started: time.Duration(started), Took: time.Duration(took), Err: errors.New(name)},
			{Name: "needs", Started: time.Duration(took), Waits: []facade.Wait{{Part: name, To: time.Duration(started)}}},
		}, Waits: []facade.Wait{{Part: "needs", To: time.Duration(took)}}, Notes: []slog.Attr{slog.String(name, name)}}
		rep.CriticalPath()
		var b bytes.Buffer
		if err := rep.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		wantHarmless(t, b.Bytes())
		if lines := strings.Count(rep.Waterfall(), "\n"); lines != 3 {
			t.Errorf("%d lines:\n%s", lines, rep.Waterfall())
		}
	})
}

func names(parts []facade.PartReport) string {
	var s []string
	for _, p := range parts {
		s = append(s, p.Name)
	}
	return strings.Join(s, " ")
}

func TestCriticalPath(t *testing.T) {
	needs := func(d time.Duration, deps ...*facade.Future[int]) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			n, err := sum(ctx, deps...)
			if err != nil {
				return 0, err
			}
			return n, sleep(ctx, d)
		}
	}
	for name, c := range map[string]struct {
		fn   pageFunc
		want string
	}{
		"one part": {get(after(10*ms, 1)), "part"},
		"no wait":  {get(after(0, 1)), ""},
		"the later": {func(ctx context.Context, s *facade.Scope) (int, error) {
			return sum(ctx, facade.Go(s, "a", after(20*ms, 1)), facade.Go(s, "b", after(10*ms, 1)))
		}, "a"},
		"a chain": {func(ctx context.Context, s *facade.Scope) (int, error) {
			a, b := facade.Go(s, "a", after(20*ms, 1)), facade.Go(s, "b", after(10*ms, 1))
			c := facade.Go(s, "c", needs(10*ms, a, b))
			return sum(ctx, facade.Go(s, "d", needs(5*ms, c, b)), b)
		}, "a c d"},
		"one after the other": {func(ctx context.Context, s *facade.Scope) (int, error) {
			if _, err := facade.Go(s, "a", after(20*ms, 1)).Get(ctx); err != nil {
				return 0, err
			}
			return facade.Go(s, "b", after(10*ms, 1)).Get(ctx)
		}, "a b"},
		"each": {func(ctx context.Context, s *facade.Scope) (int, error) {
			_, err := facade.Each(s, "e", []int{10, 30, 20}, func(ctx context.Context, n int) (int, error) {
				return n, sleep(ctx, time.Duration(n)*ms)
			}).Get(ctx)
			return 0, err
		}, "e[1] e"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := names(do(t.Context(), facade.Options{}, c.fn).rep.CriticalPath()); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestEachListsSixtyFourElements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			list, err := facade.Each(s, "list", upTo(200), func(ctx context.Context, i int) (int, error) {
				if i >= 190 {
					return 0, errBoom
				}
				return i, nil
			}, facade.Part[int]{Optional: true, Fallback: -1}).Get(ctx)
			if len(list) != 200 || list[5] != 5 || list[195] != -1 {
				t.Error(list)
			}
			return len(list), err
		})
		got.wantValue(t, 200, 0)
		p := got.part(t, "list")
		if len(got.rep.Parts) != 65 || p.Elements != 200 || p.Unlisted != 136 || p.State != facade.StateFallback || got.rep.Complete {
			t.Errorf("%d listed: %+v", len(got.rep.Parts), p)
		}
		for i := 190; i < 200; i++ { // what went wrong is there
			if e := got.part(t, fmt.Sprintf("list[%d]", i)); e.State != facade.StateFallback {
				t.Error(e)
			}
		}
	})
}

func TestEachWithoutElementsMakesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			list, err := facade.Each(s, "list", nil, func(context.Context, int) (int, error) {
				t.Error("called")
				return 0, nil
			}).Get(ctx)
			if list == nil {
				t.Error("JSON would say null")
			}
			return len(list), err
		})
		got.wantValue(t, 0, 0)
		got.wantStates(t, "list=ok")
	})
}

func TestEachRequiredElementFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			_, err := facade.Each(s, "list", upTo(3), func(ctx context.Context, i int) (int, error) {
				if i == 1 {
					return failing(10*ms, errBoom)(ctx)
				}
				return i, sleep(ctx, time.Second)
			}).Get(ctx)
			return 0, err
		})
		got.wantError(t, facade.Failed, "list[1]", `facade: page: part "list[1]": boom`, 10*ms)
		got.wantStates(t, "list=failed list[0]=cancelled list[1]=failed list[2]=cancelled")
	})
}

func TestAnnotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		facade.Annotate(t.Context(), slog.Int("nobody", 1))
		var kept context.Context
		got := do(t.Context(), facade.Options{}, func(ctx context.Context, s *facade.Scope) (int, error) {
			kept = ctx //nolint:fatcontext // used when it is over
			facade.Annotate(ctx, slog.Int("items", 3))
			return sum(ctx, facade.Go(s, "a", func(ctx context.Context) (int, error) {
				for i := range 50 {
					facade.Annotate(ctx, slog.Int("i", i), slog.Int("j", i))
				}
				return 1, nil
			}))
		})
		facade.Annotate(kept, slog.Int("late", 1))
		if n := got.rep.Notes; len(n) != 1 || n[0].String() != "items=3" {
			t.Error(n)
		}
		if n := got.part(t, "a").Notes; len(n) != 32 || n[31].String() != "j=15" {
			t.Error(n)
		}
	})
}

func TestOnRunGetsTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rep *facade.Report
		o := facade.Options{OnRun: func(r *facade.Report) { rep = r }}
		if got := do(t.Context(), o, get(after(10*ms, 1))); got.rep != rep || rep.Name != "page" || rep.Took != 10*ms {
			t.Error(rep)
		}
		if got := do(t.Context(), o, nil); got.rep != rep || rep.Err == nil {
			t.Error(rep)
		}
	})
}

func TestNamesOfStatesAndKinds(t *testing.T) {
	want := "pending ok skipped fallback unused cancelled failed state(7)"
	var got []string
	for s := facade.StatePending; s <= facade.StateFailed+1; s++ {
		got = append(got, s.String())
	}
	if strings.Join(got, " ") != want {
		t.Error(got)
	}
	want, got = "kind(0) failed timeout cancelled panic cycle usage kind(7)", nil
	for k := facade.Kind(0); k <= facade.Usage+1; k++ {
		got = append(got, k.String())
	}
	if strings.Join(got, " ") != want {
		t.Error(got)
	}
}
