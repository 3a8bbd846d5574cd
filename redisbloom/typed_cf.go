package redisbloom

// CFReserveOptions are the options of CF.RESERVE. What is 0 has its setting's value.
type CFReserveOptions struct {
	Capacity      int64
	BucketSize    int64
	MaxIterations int64
	Expansion     int64
}

// CFInsertOptions are the options of CF.INSERT. A Capacity of 0 is the setting cf-initial-size.
type CFInsertOptions struct {
	Capacity int64
	NoCreate bool // an error where there is no filter
}

// CFInfo is the answer of CF.INFO.
type CFInfo struct {
	Size             int64 // bytes, by the server's count
	NumBuckets       int64 // of the first sub-filter
	NumFilters       int64 // sub-filters
	NumItemsInserted int64 // items that are there
	NumItemsDeleted  int64 // since the last compaction
	BucketSize       int64 // slots
	ExpansionRate    int64 // buckets of a sub-filter over those of the one before; 0 for a fixed size
	MaxIteration     int64 // moves that one insertion may make
}

// CFReserve makes an empty cuckoo filter for capacity items: twice the bucket size … 2^30. The errors are
// those of [Engine.BFReserve].
func (e *Engine) CFReserve(key string, capacity int64) error {
	return e.CFReserveWithArgs(key, &CFReserveOptions{Capacity: capacity})
}

// CFReserveExpansion is [Engine.CFReserve] with the growth of sub-filters, 0 … 32,768, rounded up to a
// power of two; with 0 the filter does not grow and refuses items with [ErrCFFull].
func (e *Engine) CFReserveExpansion(key string, capacity, expansion int64) error {
	return e.call("cf.reserve", key, formatInt(capacity), "expansion", formatInt(expansion)).Err()
}

// CFReserveBucketSize is [Engine.CFReserve] with the slots of a bucket, 1 … 255.
func (e *Engine) CFReserveBucketSize(key string, capacity, bucketSize int64) error {
	return e.CFReserveWithArgs(key, &CFReserveOptions{Capacity: capacity, BucketSize: bucketSize})
}

// CFReserveMaxIterations is [Engine.CFReserve] with how many items an add may move, 1 … 65,535.
func (e *Engine) CFReserveMaxIterations(key string, capacity, maxIterations int64) error {
	return e.CFReserveWithArgs(key, &CFReserveOptions{Capacity: capacity, MaxIterations: maxIterations})
}

// CFReserveWithArgs is [Engine.CFReserve] with all options.
func (e *Engine) CFReserveWithArgs(key string, o *CFReserveOptions) error {
	args := []string{"cf.reserve", key, formatInt(o.Capacity)}
	if o.BucketSize != 0 {
		args = append(args, "bucketsize", formatInt(o.BucketSize))
	}
	if o.MaxIterations != 0 {
		args = append(args, "maxiterations", formatInt(o.MaxIterations))
	}
	if o.Expansion != 0 {
		args = append(args, "expansion", formatInt(o.Expansion))
	}
	return e.call(args...).Err()
}

// CFAdd adds item once more, and makes the filter with the default settings if there is none. It
// returns true. Errors: [ErrWrongType], [ErrCFFull], [ErrCFExpansions] when there are as many
// sub-filters as the setting cf-max-expansions allows, [ErrOutOfMemory]; and see [ErrIncomplete].
// It allocates only to make a filter or to grow one.
func (e *Engine) CFAdd(key, item string) (bool, error) {
	g, args := e.enter(key, item)
	defer g.RUnlock()
	return cfAdd(e, args[:]).asBool()
}

// CFAddNX is [Engine.CFAdd] unless item is there, or seems to be; then it returns false.
func (e *Engine) CFAddNX(key, item string) (bool, error) {
	g, args := e.enter(key, item)
	defer g.RUnlock()
	return cfAddNX(e, args[:]).asBool()
}

// CFInsert adds items and returns an answer for each, false for one that was refused: it goes on with the
// next one. A nil o is the settings. With NoCreate a missing key is [ErrNotFound].
func (e *Engine) CFInsert(key string, o *CFInsertOptions, items ...string) ([]bool, error) {
	return e.withItems(items, o.args("cf.insert", key)...).bools()
}

// CFInsertNX is [Engine.CFInsert] with the three answers of CF.INSERTNX: 1 for an item that was added, 0 for one that
// is there or seems to be, −1 for one that was refused.
func (e *Engine) CFInsertNX(key string, o *CFInsertOptions, items ...string) ([]int64, error) {
	return e.withItems(items, o.args("cf.insertnx", key)...).ints()
}

func (o *CFInsertOptions) args(name, key string) []string {
	args := []string{name, key}
	if o != nil {
		if o.Capacity != 0 {
			args = append(args, "capacity", formatInt(o.Capacity))
		}
		if o.NoCreate {
			args = append(args, "nocreate")
		}
	}
	return append(args, "items")
}

// CFExists reports whether item may be there: false means that it is not. What else
// [Engine.BFExists] says holds too.
func (e *Engine) CFExists(key, item string) (bool, error) {
	g, args := e.enter(key, item)
	defer g.RUnlock()
	return cfExists(e, args[:]).asBool()
}

// CFMExists is [Engine.CFExists] for several items.
func (e *Engine) CFMExists(key string, items ...string) ([]bool, error) {
	return e.withItems(items, "cf.mexists", key).bools()
}

// CFCount returns how often item may be there: at least as often as it was added and not
// deleted.
func (e *Engine) CFCount(key, item string) (int64, error) {
	g, args := e.enter(key, item)
	defer g.RUnlock()
	return cfCount(e, args[:]).asInt()
}

// CFDel deletes item once and reports whether it was there. Delete only items that were
// added: else another one, that looks the same, may go. A key that is no
// cuckoo filter is [ErrCFDelNotFound].
func (e *Engine) CFDel(key, item string) (bool, error) {
	g, args := e.enter(key, item)
	defer g.RUnlock()
	return cfDel(e, args[:]).asBool()
}

// CFCompact moves items to older sub-filters where there is room and drops the newest ones
// that are empty then.
func (e *Engine) CFCompact(key string) error { return e.call("cf.compact", key).Err() }

// CFInfo describes a filter.
func (e *Engine) CFInfo(key string) (CFInfo, error) {
	r := e.call("cf.info", key)
	n := r.numbers()
	return CFInfo{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]}, r.Err()
}

// CFScanDump is [Engine.BFScanDump] of a cuckoo filter. One that holds nothing has no
// pieces.
func (e *Engine) CFScanDump(key string, iterator int64) (ScanDump, error) {
	return e.call("cf.scandump", key, formatInt(iterator)).scanDump()
}

// CFLoadChunk is [Engine.BFLoadChunk] for a cuckoo filter.
func (e *Engine) CFLoadChunk(key string, iterator int64, data string) error {
	return e.call("cf.loadchunk", key, formatInt(iterator), data).Err()
}

// CFDebug describes a filter in one line.
func (e *Engine) CFDebug(key string) (string, error) {
	r := e.call("cf.debug", key)
	return r.Str, r.Err()
}
