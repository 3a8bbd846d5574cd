// Package rolling has filters that change over time while they are in use: ones that are
// rebuilt, that lose keys, that forget what is old.
//
// A Bloom filter only ever takes keys. When rows are deleted, their keys stay, and each stays
// a false positive: nothing breaks, but the filter fills up. Five answers to that, and
// when to take which:
//
//	                    costs                      take it when
//	rebuild   [Swap]    a scan now and then, and   the truth is in a database: heals every
//	                    two filters in memory      other error too, so start with this one
//	overlay   [Overlay] rebuild, and the exact     as before, and deleted keys are asked for
//	                    keys deleted since         right after their deletion
//	counting  bloom.Counting   4 × the bits        there is nothing to rebuild from, and only
//	                                               keys that were added are ever removed
//	cuckoo    bloom.Cuckoo     about the bits of a the same, and each key is added once, or
//	                           filter; can be full few times
//	buckets   [Rotating]       a filter a bucket   keys end by age, not one by one: seen in
//	                                               the last hour, sent today
//
// Removing a key from a counting or a cuckoo filter that never got it takes away bits or
// fingerprints of others, which are then called absent though they exist. An
// overlay and a rebuild have no such mistake to make, which is why package guard is
// built from those two.
//
// The types know nothing of one filter's kind: a Swap is generic in it. What they hold is
// called from many goroutines at once, so it is a bloom.Concurrent as a rule, or another
// kind in a bloom.Locked.
package rolling
