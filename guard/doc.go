// Package guard keeps lookups of keys that do not exist away from the database.
//
// A cache is no help against them: each such key is new to it, so every lookup falls through, whether
// it comes from an attacker who makes keys up or from a crawler with old links. A [Guard] has a Bloom
// filter of all keys in front of the cache. For a key that is not in the filter there is certainly
// no row, and the lookup ends there, in tens of nanoseconds; one absent key in a hundred, as the
// filter is made, passes for one that may exist, and costs the query that it would have cost
// without.
//
//	Get(k) ── filter ── absent ──▶ ErrAbsent
//	             │ maybe, or no filter yet
//	             ▼
//	           cache ── row ─────▶ the row
//	             │  └── null ────▶ ErrNotFound
//	             ▼
//	           loader ───────────▶ the row, or ErrNotFound; both are cached
//	           (one load a key, at most MaxLoads at once)
//
// # When the database is melting
//
// Make a guard with a [Loader], the Capacity (twice the rows there are) and MaxLoads (what the
// database stands). It works from the first moment: with no filter its state is Unknown, it
// rejects nothing, and MaxLoads bounds what reaches the database, the rest being answered with
// [ErrOverload]. Then, in the background, call [Guard.Rebuild] with a [Scan] of all keys. When it returns,
// the attack is over for the database.
//
// Put [Guard.Create] around every write that makes rows. A guard that is not told of a row rejects it:
// there is no other way for it to be wrong, and this one is silent. While you are not sure
// that all writes are wrapped, set Audit: to 1, and the filter decides nothing, but
// Stats().FalseNegatives counts the rows that it would have rejected, and the [Observer] is told their
// keys; to 0.001 for ever after.
//
// # Writes
//
// A row must be in the filter before anybody can see it, and nothing that was read before it was
// written may enter the cache after. So: announce, commit, mark, reply, which is what Create does:
//
//	Create  ──▶ Announce    key into the filter, and into the next one during a rebuild
//	            commit      ◀── from here on readers can see the row, and are let through
//	            MarkCreated key into the filters once more; loads that began before are fenced
//	                        off; the cache forgets the key
//	reply   ◀──
//
// Where the database chooses the key: insert, [Guard.MarkCreated], and only then tell the key to
// anybody. Updates are marked like creations. Call [Guard.MarkDeleted] after a deletion: the filter
// keeps the key, as Bloom filters do, but for MissTTL the guard remembers the deletion, and the next
// rebuild leaves the key out.
//
// # Several processes
//
// A filter in the process does not hear of rows that other processes write: it rejects them. This is
// the one hole that it cannot close alone. There are three ways to close it, and one to see it:
//
//   - [Guard.CatchUp] every second or so with the rows since [Guard.CompleteAt], or for each
//     event of a feed. Rows are rejected until then, so it suits rows that need not be visible at once.
//   - Options.Fresh, where a key tells when it was made (UUIDv7, ULID, snowflake, a sequence): a key
//     that is newer than CompleteAt is let through. No row is rejected. An attacker who makes up fresh
//     keys gets through too, to the cache and MaxLoads.
//   - Options.Filter: one filter for all, in Redis for example, with a round trip a lookup.
//   - Options.Audit proves, by a share of rejections, that none is wrong.
//
// A cache that processes share must be a [SharedCache]: it refuses the null of a process that looked
// before another one created the row. A cache in the process, such as the default, may say
// for MissTTL that a row of another process is not there.
//
// # Restarts
//
// A scan of a large table takes minutes. [Guard.SnapshotFile] now and then, and at the end,
// [Guard.RestoreFile] at the start: it reads the filter in a second and asks the database only for the rows
// since; until it has them, nothing is rejected. A snapshot needs Options.Key.
//
// # Sizes
//
// At the default rate of 1 % a key takes 9.6 bits of memory, at 0.1 % 14.4; a rebuild takes as much again
// while it runs. Up to Capacity the rate is as asked; beyond, it rises, to 3 % at 1.3 times the
// Capacity and 16 % at twice, while memory does not. What counts is Stats().Load, items over
// capacity. The share of bits set says little: 0.44 of them at a Load of 0.8, when it is time to
// rebuild.
//
// # What to watch
//
//   - State: Unknown means no protection but MaxLoads.
//   - Load: rebuild from 0.8 on, with a larger Capacity, or let Rebuild choose it. [Observer] says when.
//   - FalseNegatives: must be 0.
//   - ObservedRate beside EstimatedRate: far above means that many deleted keys are in the filter (rebuild), or that
//     one absent key that passes is asked for again and again (the cache has it).
//   - Overloads: loads that were refused. CacheErrors, LoadErrors, FilterErrors.
//
// Rebuild also at night, say: it heals whatever went wrong. It runs under full load: lookups go on being
// rejected by the old filter, writes go to both, and the swap is one store of a pointer. [Guard.Unload] is
// the kill switch.
package guard
