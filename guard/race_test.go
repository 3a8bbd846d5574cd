//go:build race

package guard

// underRace tells that a sync.Pool drops what it is given now and then.
const underRace = true
