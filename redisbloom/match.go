package redisbloom

// Match reports whether s matches a pattern as KEYS has them: * is any bytes, ? any one, [ae], [a-e] and
// [^e] one of a set, and \ takes the special meaning of the byte behind it. It takes
// time in proportion to len(pattern)·len(s) at most.
func Match(pattern, s string) bool {
	// Where to go on if what follows the last * does not match: one byte further. An
	// earlier * needs no second look, since a later one takes up all that it could.
	star, at := -1, 0
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, at = p, i
			p++
			continue
		}
		if next, ok := matchByte(pattern, p, s[i]); ok {
			p, i = next, i+1
			continue
		}
		if star < 0 {
			return false
		}
		at++
		p, i = star+1, at
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte matches c against the one element of pattern at p, and returns where the
// next one is.
func matchByte(pattern string, p int, c byte) (next int, ok bool) {
	if p == len(pattern) {
		return 0, false
	}
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchSet(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// matchSet matches c against the set that begins at p, behind its bracket. A set that is not
// closed ends with the pattern.
func matchSet(pattern string, p int, c byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		low, high := pattern[p], pattern[p]
		switch {
		case low == '\\' && p+1 < len(pattern):
			p++
			low, high = pattern[p], pattern[p]
		case p+2 < len(pattern) && pattern[p+1] == '-':
			p += 2
			high = pattern[p]
			if low > high {
				low, high = high, low
			}
		}
		if low <= c && c <= high {
			ok = true
		}
	}
	return min(p+1, len(pattern)), ok != not
}
