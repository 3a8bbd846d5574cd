package bloom

import (
	"fmt"
	"math"
	"math/big"
)

// This file has the sizing math of Blocked: lines of 512 bits in 8 words of 64, a key
// having rows bits in every word of one line.

const (
	// maxRows is where more bits a key stop paying: four rows need more lines than three
	// at any rate down to minBlockedRate.
	maxRows = 3

	// minBlockedRate is about where Blocked takes three times the bits of Filter.
	minBlockedRate = 1e-12

	// maxLineKeys is how many keys in a line are told apart; with more the line counts
	// as full.
	maxLineKeys = 1024
)

// sizeBlocked returns the smallest number of lines that keeps the rate, and the rows
// that do with so few.
func sizeBlocked(capacity uint64, errorRate float64) (lines uint64, rows int, err error) {
	if err := checkCapacityAndRate(capacity, errorRate); err != nil {
		return 0, 0, err
	}
	if errorRate < minBlockedRate {
		return 0, 0, fmt.Errorf("%w: error rate is %v, Blocked goes down to %v, where keys crowd in some lines; Filter goes lower",
			ErrInvalid, errorRate, minBlockedRate)
	}
	// A key has at least the bits of a Filter, and one.
	raw := max(rawBits(capacity, errorRate), float64(capacity))
	if raw > maxBits {
		return 0, 0, tooManyBits(capacity, errorRate, raw)
	}
	lines = maxBits/512 + 1
	for r := 1; r <= maxRows; r++ {
		l := newLineRates(r)
		best := search(max(1, uint64(raw/512)), lines, func(n uint64) bool { return l.highRate(capacity, n) <= errorRate })
		if best < lines {
			lines, rows = best, r
		}
	}
	if rows == 0 {
		return 0, 0, fmt.Errorf("%w: no size up to 2^48 bits brings the rate of %d keys down to %v", ErrTooLarge, capacity, errorRate)
	}
	return lines, rows, nil
}

// lineRates has, by the number of keys in a line, the expected rate of false positives
// among the absent keys of that line, and its expected square.
type lineRates struct {
	rate, square [maxLineKeys + 1]float64
}

func newLineRates(rows int) *lineRates {
	var l lineRates
	wordHits(&l.rate, rows, rows)
	wordHits(&l.square, 2*rows, rows)
	for j := range l.rate {
		l.rate[j], l.square[j] = pow(l.rate[j], 8), pow(l.square[j], 8) // words are independent
	}
	return &l
}

// wordHits fills hits, by the number of keys that have set rows random bits each in a word of
// 64, with the chance that all of so many random probes find a set bit.
//
// By inclusion and exclusion that is the sum over i of (−1)^i·C(probes, i)·(chance that i
// given probes find none). These fall on d different bits with a chance that is computed throw by
// throw, and d given bits are clear after x throws with (1−d/64)^x.
func wordHits(hits *[maxLineKeys + 1]float64, probes, rows int) {
	var factor, distinct, clear, perKey [2*maxRows + 1]float64
	choose := 1.0
	distinct[0] = 1
	for i := range probes + 1 {
		for d := range i + 1 {
			factor[d] += float64(choose * distinct[d])
		}
		for d := i + 1; d > 0 && i < probes; d-- {
			distinct[d] = float64(distinct[d]*float64(d)/64) + float64(distinct[d-1]*float64(65-d)/64)
		}
		distinct[0] = 0
		choose *= -float64(probes-i) / float64(i+1)
	}
	for d := range probes + 1 {
		clear[d], perKey[d] = 1, pow(1-float64(d)/64, rows)
	}
	for j := range hits {
		for d := range probes + 1 {
			hits[j] += float64(factor[d] * clear[d])
			clear[d] *= perKey[d]
		}
	}
}

// highRate is the expected rate of capacity keys in so many lines, and three standard
// deviations more, for filters whose keys happen to crowd more than usual.
//
// The number of keys j in a line is binomial, close to Poisson when there are many lines.
// The rate of a filter is the mean over its lines, so its variance is that over lines
// divided by their number, less the part that goes linearly with j, whose sum is
// fixed.
//
// Positions come from 64 bits of hash, 32 for each half of a line, so that keys can
// share half of them. That adds at most 2j/2^32·√rate: nothing at minBlockedRate.
func (l *lineRates) highRate(capacity, lines uint64) float64 {
	n, others := float64(capacity), float64(lines-1)
	mean := n / float64(lines)
	var weights, rate, square, slope float64
	add := func(j, weight float64) {
		r, s := 1.0, 1.0
		if j <= maxLineKeys {
			r, s = l.rate[int(j)], l.square[int(j)]
		}
		weights += weight
		rate += float64(weight * r)
		square += float64(weight * s)
		slope += float64(weight * r * (j - mean))
	}
	// From the most likely j both ways, by the ratio of neighbours, till nothing is left.
	const nothing = 1e-25
	mode := min(n, float64((capacity+1)/lines))
	for j, weight := mode, 1.0; j <= n && weight > nothing; j++ {
		add(j, weight)
		weight *= (n - j) / (j + 1) / others
	}
	for j, weight := mode, 1.0; j > 0; j-- {
		weight *= j * others / (n - j + 1)
		if weight <= nothing {
			break
		}
		add(j-1, weight)
	}
	rate, square, slope = rate/weights, square/weights, slope/weights
	variance := square - float64(rate*rate)
	if lines > 1 {
		variance -= slope * slope / (mean * others / float64(lines))
	}
	return rate + float64(3*math.Sqrt(max(0, variance)/float64(lines)))
}

// estimateBlockedLen returns how many distinct keys are likely to have set setBits bits:
// a key leaves a given bit clear with the chance 1 − (1 − (63/64)^rows)/lines.
func estimateBlockedLen(setBits, lines uint64, rows int) float64 {
	switch all := lines * 512; {
	case setBits == 0:
		return 0
	case setBits >= all:
		return math.Inf(1)
	default:
		num := func(x uint64) *big.Float { return new(big.Float).SetPrec(lnPrec).SetUint64(x) }
		clear := num(all - setBits)
		left, out := num(lines), new(big.Float).SetPrec(lnPrec).SetFloat64(1-pow(63.0/64, rows))
		left.Quo(left.Sub(left, out), num(lines))
		return lnBig(clear.Quo(clear, num(all))) / lnBig(left)
	}
}
