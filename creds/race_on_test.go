//go:build race

package creds_test

const raceEnabled = true
