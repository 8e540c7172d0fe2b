package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/sortie-go/sortie/client"
	"github.com/sortie-go/sortie/facade"
	"github.com/sortie-go/sortie/metrics"
)

// page is the answer of the service: five outbound calls, made as one.
type page struct {
	Item    item
	Price   price
	Stock   stock
	Reviews []string `json:",omitempty"`
	Advice  []string `json:",omitempty"`
}

type (
	item  struct{ ID, Name, Group string }
	price struct{ Cents int }
	stock struct{ Pieces int }
)

// newPage returns the handler of one page. Item, price and stock are needed; reviews and advice are left out when they fail.
func newPage(calls *client.Client, m *metrics.Metrics) http.Handler {
	return &facade.Handler[page]{
		Options:    facade.Options{Name: "page", Timeout: 2 * time.Second, Metrics: m},
		StatusFor:  statusFor,
		ShowStates: func(*http.Request) bool { return true }, // this page has no secrets
		Run: func(ctx context.Context, s *facade.Scope, r *http.Request) (p page, err error) {
			id := url.PathEscape(r.PathValue("id"))
			about := facade.Go(s, "item", get[item](calls, "catalog", "/items/{id}", "/items/"+id))
			cost := facade.Go(s, "price", get[price](calls, "price", "/prices/{id}", "/prices/"+id))
			left := facade.Go(s, "stock", get[stock](calls, "stock", "/stock/{id}", "/stock/"+id))
			said := facade.Go(s, "reviews", get[[]string](calls, "reviews", "/reviews/{id}", "/reviews/"+id),
				facade.Part[[]string]{Optional: true, Timeout: 300 * time.Millisecond})
			advice := facade.Go(s, "advice", func(ctx context.Context) ([]string, error) {
				it, err := about.Get(ctx) // what goes with an item depends on its group
				if err != nil {
					return nil, err
				}
				return get[[]string](calls, "advice", "/advice/{group}", "/advice/"+url.PathEscape(it.Group))(ctx)
			}, facade.Part[[]string]{Optional: true, Timeout: 300 * time.Millisecond})

			if p.Item, err = about.Get(ctx); err != nil {
				return p, err
			}
			if p.Price, err = cost.Get(ctx); err != nil {
				return p, err
			}
			if p.Stock, err = left.Get(ctx); err != nil {
				return p, err
			}
			if p.Reviews, err = said.Get(ctx); err != nil {
				return p, err
			}
			p.Advice, err = advice.Get(ctx)
			return p, err
		},
	}
}

// get returns the function of a part: one JSON call.
func get[T any](calls *client.Client, upstream, template, path string) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		ctx = client.WithTemplate(ctx, template) // the name of the call in spans
		return client.GetJSON[T](ctx, calls, "http://"+upstream+".shop.example"+path)
	}
}

// statusFor answers 503 where the client refused to ask at all: the caller may try again, elsewhere or later.
func statusFor(err error) int {
	if client.Refused(err) {
		return http.StatusServiceUnavailable
	}
	return 0
}
