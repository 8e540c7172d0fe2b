// Package deploy holds what a service on Sortie is deployed with: Kubernetes manifests, the rules that give an autoscaler
// the metric queries_per_second, and a Grafana dashboard. README.md in its folder says how to apply each file, and which
// exclude each other.
//
// It exports nothing. Its tests decode the files strictly into the types that the API servers use, parse every query with
// Prometheus' own parser, hold the numbers of the files against each other, and run a load step through a model of gauge,
// scrape and autoscaler. It is a module of its own so that nobody inherits what that needs.
package deploy
