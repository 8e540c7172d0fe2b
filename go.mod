module github.com/sortie-go/sortie

go 1.26
