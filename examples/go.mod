module github.com/sortie-go/sortie/examples

go 1.26

require github.com/sortie-go/sortie v0.0.0

replace github.com/sortie-go/sortie => ../
