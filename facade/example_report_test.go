package facade_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sortie-go/sortie/facade"
)

// A part may leave a note in its line of the report. Report.Waterfall and Report.WriteSVG draw the whole run.
func ExampleAnnotate() {
	o := facade.Options{
		Name: "page",
		OnRun: func(rep *facade.Report) {
			for _, p := range rep.Parts {
				fmt.Println(rep.Name, p.Name, p.State, p.Notes)
			}
		},
	}
	facade.Do(context.Background(), o, func(ctx context.Context, s *facade.Scope) (string, error) {
		return facade.Go(s, "item", func(ctx context.Context) (string, error) {
			facade.Annotate(ctx, slog.String("cache", "STALE"), slog.Int("attempts", 2))
			return "cup", nil
		}).Get(ctx)
	})
	// Output: page item ok [cache=STALE attempts=2]
}
