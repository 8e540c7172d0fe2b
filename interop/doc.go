// Package interop holds tests against real clients and servers, whose dependencies no user of Sortie may inherit.
package interop
