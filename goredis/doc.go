// Package goredis keeps filters in Redis, through go-redis: many processes share one, and each can still answer
// from its own memory.
//
//	Filter   BF.* of RedisBloom and Redis 8      grows; counts keys
//	Cuckoo   CF.* of the same                    keys can be removed
//	Bitmap   SETBIT and GETBIT, any Redis        the bits of a bloom.Filter, no module needed
//	Rolling  bitmaps, one a time bucket          forgets what is old
//	Sync     a local copy of one of the first three, refreshed now and then
//	Cache    values and missing rows, for package guard
//
// Filter, Cuckoo, Bitmap, Rolling and Sync are filters for guard.Options.Filter, and Cache is a guard.SharedCache.
//
// # Unknown, Absent, Maybe
//
// Redis answers that a key is not in a filter which is not there. A filter that was evicted, flushed, or
// failed over would so call every row absent. Hence each filter has a marker beside it, a
// small string that says that the filter is whole: it names the parameters, the generation, and the history of the
// server's data (its replication ID, which is another after a restart or a failover). Every lookup reads the filter,
// the marker and the server's history in one script or transaction, in one round trip. Unless all is as it should be,
// the answer is guard.Unknown, never Absent.
//
// Reserve, Rebuild and Push write the marker, and Confirm does where somebody else knows that the filter is whole.
// Adds never create a filter. Since others might: let no client send BF.ADD or SETBIT to such a key that
// would make it anew (BF.INSERT with NOCREATE does not).
//
// # Keys
//
// A filter at key "users" has its marker at "{users}~gen", and while it is being rebuilt or pushed "{users}~next",
// "{users}~load", "{users}~log" and "{users}~build". At a key with a hash tag, "app:{users}", they are
// "app:{users}:gen" and so on. All are in one slot of a cluster. A key that holds a "}" and no tag is refused.
//
// # Clients, contexts and retries
//
// The client is a redis.Client, also one of Sentinel, or a redis.ClusterClient. Filters refuse a redis.Ring with
// bloom.ErrInvalid: it sends a key to another server while its own is down, and what is added there is missing
// when that comes back. A [Cache] takes one.
//
// go-redis keeps to the deadline of a context within a request only where ContextTimeoutEnabled is set in its
// options; otherwise its ReadTimeout bounds a request. A Rebuild or Push that ends by its context takes up to five
// seconds more to delete what it has written.
//
// A client sends a request again whose reply was lost. That never changes what a filter answers, but an add that was
// sent twice reports a key as there already that it has just added, and [Cuckoo.Add] may store it twice. [Rolling.Add],
// whose answers are to tell the new from the old, and [Cuckoo.Remove] are never sent again.
//
// # Goroutines
//
// All methods of all types may be called from any number of goroutines at once.
package goredis
