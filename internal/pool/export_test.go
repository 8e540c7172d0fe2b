package pool

// KeepAliveTimeout is the parser of Keep-Alive headers, to be fuzzed.
var KeepAliveTimeout = keepAliveTimeout
