module github.com/sortie-go/sortie

go 1.26.0

require (
	golang.org/x/net v0.62.0
	golang.org/x/sync v0.25.0 // indirect
)
