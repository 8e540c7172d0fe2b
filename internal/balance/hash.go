package balance

// hashString is FNV-1a with a final mix. It is the same in all processes and versions: keys must not move between them.
func hashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix spreads every bit over all others: the last steps of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit makes a number between 0 and 1 of a hash, neither of them included.
func unit(h uint64) float64 { return (float64(h>>11) + 0.5) / (1 << 53) }
