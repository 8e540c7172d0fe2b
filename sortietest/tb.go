package sortietest

// TB is what this package needs of a test: *[testing.T], *[testing.B] and *[testing.F] have it. It is an interface so
// that importing sortietest does not link package testing, with its flags, into a program.
type TB interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}
