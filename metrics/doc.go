// Package metrics holds the words in which Sortie speaks of numbers.
//
// For now that is [Phase]: the parts into which the wall time of one call is divided. Package client fills them in its
// reports.
package metrics
