// Quickstart makes two calls through Sortie and prints where the time of each went.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sortie-go/sortie/client"
)

type item struct {
	ID   int
	Name string
}

func main() {
	log.SetFlags(0)
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(3 * time.Millisecond)
		fmt.Fprint(w, `{"ID": 7, "Name": "lamp"}`)
	}))
	defer catalog.Close()

	// The upstream is known by its public name. Inside, it lives at a private address; this process is inside.
	c, err := client.New(client.Config{
		Side: client.Internal,
		Upstreams: []client.Upstream{{
			Name:     "catalog",
			Hosts:    []string{"api.shop.example"},
			Internal: []string{catalog.URL},
			External: []string{"https://api.shop.example"},
			Policy:   client.Policy{Timeout: &client.Timeout{}},
		}},
		OnCall: func(r client.Report) { fmt.Println(r) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for range 2 {
		it, err := client.GetJSON[item](context.Background(), c, "https://api.shop.example/items/7")
		if err != nil {
			log.Print(err)
			return
		}
		fmt.Printf("item %d is a %s\n", it.ID, it.Name)
	}
}
