package main

import boom "github.com/tylertreat/BoomFilters"

// The filters of BoomFilters. Each has loops of its own, though they are the same text:
// through the library's interface every call would cost a nanosecond more.

type boomClassic struct{ *boom.BloomFilter }

func (f boomClassic) memoryBits() uint64 { return uint64(f.Capacity()) }

func (f boomClassic) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f boomClassic) addStrings(keys []string) {
	for _, k := range keys {
		f.Add([]byte(k))
	}
}

func (f boomClassic) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Test(k) {
			yes++
		}
	}
	return yes
}

func (f boomClassic) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.Test([]byte(k)) {
			yes++
		}
	}
	return yes
}

// newBoomScalable makes a scalable filter that has several layers when it holds n keys.
func newBoomScalable(n int, p float64) filter {
	return boomScalable{boom.NewScalableBloomFilter(uint(n)/4, p, 0.8)}
}

type boomScalable struct{ *boom.ScalableBloomFilter }

func (f boomScalable) memoryBits() uint64 { return uint64(f.Capacity()) }

func (f boomScalable) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f boomScalable) addStrings(keys []string) {
	for _, k := range keys {
		f.Add([]byte(k))
	}
}

func (f boomScalable) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Test(k) {
			yes++
		}
	}
	return yes
}

func (f boomScalable) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.Test([]byte(k)) {
			yes++
		}
	}
	return yes
}

type boomCounting struct{ *boom.CountingBloomFilter }

func (f boomCounting) memoryBits() uint64 { return uint64(f.Capacity()) * 4 }

func (f boomCounting) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f boomCounting) addStrings(keys []string) {
	for _, k := range keys {
		f.Add([]byte(k))
	}
}

func (f boomCounting) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Test(k) {
			yes++
		}
	}
	return yes
}

func (f boomCounting) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.Test([]byte(k)) {
			yes++
		}
	}
	return yes
}

type boomCuckoo struct{ *boom.CuckooFilter }

func (f boomCuckoo) addBytes(keys [][]byte) {
	for _, k := range keys {
		must(f, f.Add(k))
	}
}

func (f boomCuckoo) addStrings(keys []string) {
	for _, k := range keys {
		must(f, f.Add([]byte(k)))
	}
}

func (f boomCuckoo) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Test(k) {
			yes++
		}
	}
	return yes
}

func (f boomCuckoo) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.Test([]byte(k)) {
			yes++
		}
	}
	return yes
}
