package redisbloom

// BFReserveOptions are the options of BF.RESERVE.
type BFReserveOptions struct {
	Capacity   int64   // items, 1 … 2^30
	Error      float64 // the rate of false positives, a ratio between 0 and 1
	Expansion  int64   // 0: the setting bf-expansion-factor
	NonScaling bool    // refuses items past Capacity
}

// BFInsertOptions are the options of BF.INSERT. What is 0 has its setting's value.
type BFInsertOptions struct {
	Capacity   int64
	Error      float64 // the rate of false positives, a ratio between 0 and 1
	Expansion  int64
	NonScaling bool // refuses items past Capacity
	NoCreate   bool // an error where there is no filter
}

// BFInfo is the answer of BF.INFO.
type BFInfo struct {
	Capacity      int64 // keys the filter was made for, of all its links together
	Size          int64 // bytes, by the server's count
	Filters       int64 // links
	ItemsInserted int64 // adds that changed something
	ExpansionRate int64 // 0 for a filter that does not scale
}

// BFReserve makes an empty Bloom filter for capacity items at errorRate, a ratio between 0 and 1; above 0.25
// it counts as 0.25. Capacity is 1 … 2^30. The filter grows past it, by links
// that get larger by the setting bf-expansion-factor. The error is
// [ErrExists] if the key is a Bloom filter, [ErrWrongType] if it is something else, [ErrOutOfMemory] where the
// filter would pass the memory limit, and one that names the parameter otherwise.
func (e *Engine) BFReserve(key string, errorRate float64, capacity int64) error {
	return e.BFReserveWithArgs(key, &BFReserveOptions{Error: errorRate, Capacity: capacity})
}

// BFReserveExpansion is [Engine.BFReserve] with the growth of the links, 0 … 32,768; 0 makes a filter
// that does not scale.
func (e *Engine) BFReserveExpansion(key string, errorRate float64, capacity, expansion int64) error {
	return e.call("bf.reserve", key, formatFloat(errorRate), formatInt(capacity), "expansion", formatInt(expansion)).Err()
}

// BFReserveNonScaling is [Engine.BFReserve] for a filter that refuses items with [ErrBFFull] when it
// holds capacity of them.
func (e *Engine) BFReserveNonScaling(key string, errorRate float64, capacity int64) error {
	return e.BFReserveWithArgs(key, &BFReserveOptions{Error: errorRate, Capacity: capacity, NonScaling: true})
}

// BFReserveWithArgs is [Engine.BFReserve] with all options.
func (e *Engine) BFReserveWithArgs(key string, o *BFReserveOptions) error {
	args := []string{"bf.reserve", key, formatFloat(o.Error), formatInt(o.Capacity)}
	if o.Expansion != 0 {
		args = append(args, "expansion", formatInt(o.Expansion))
	}
	if o.NonScaling {
		args = append(args, "nonscaling")
	}
	return e.call(args...).Err()
}

// BFAdd adds item, and makes the filter with the default settings if there is none. It
// returns whether that changed the filter; false means that item was there, or seemed
// to be. Errors: [ErrWrongType], [ErrBFFull], [ErrOutOfMemory]; and see [ErrIncomplete].
// It allocates only to make a filter or to grow one.
func (e *Engine) BFAdd(key, item string) (bool, error) {
	g, args := e.enter(key, item)
	defer g.RUnlock()
	return bfAdd(e, args[:]).asBool()
}

// BFMAdd is [Engine.BFAdd] for several items. It stops at the first that is refused: then it returns the
// answers for those before it, and the error.
func (e *Engine) BFMAdd(key string, items ...string) ([]bool, error) {
	return e.withItems(items, "bf.madd", key).bools()
}

// BFInsert is [Engine.BFMAdd] with options for a filter that it makes; nil is the settings. With NoCreate
// a missing key is [ErrNotFound].
func (e *Engine) BFInsert(key string, o *BFInsertOptions, items ...string) ([]bool, error) {
	args := []string{"bf.insert", key}
	if o != nil {
		if o.Capacity != 0 {
			args = append(args, "capacity", formatInt(o.Capacity))
		}
		if o.Error != 0 {
			args = append(args, "error", formatFloat(o.Error))
		}
		if o.Expansion != 0 {
			args = append(args, "expansion", formatInt(o.Expansion))
		}
		if o.NoCreate {
			args = append(args, "nocreate")
		}
		if o.NonScaling {
			args = append(args, "nonscaling")
		}
	}
	return e.withItems(items, append(args, "items")...).bools()
}

// BFExists reports whether item may have been added: false means that it was not.
// Like the server it answers false for a key that is not there or holds something else. The
// error can be that of a filter which is being loaded: see [ErrIncomplete]. It
// does not allocate.
func (e *Engine) BFExists(key, item string) (bool, error) {
	g, args := e.enter(key, item)
	defer g.RUnlock()
	return bfExists(e, args[:]).asBool()
}

// BFMExists is [Engine.BFExists] for several items.
func (e *Engine) BFMExists(key string, items ...string) ([]bool, error) {
	return e.withItems(items, "bf.mexists", key).bools()
}

// BFCard returns how many adds changed the filter; 0 for a key that is not there.
func (e *Engine) BFCard(key string) (int64, error) { return e.call("bf.card", key).asInt() }

// BFInfo describes a filter.
func (e *Engine) BFInfo(key string) (BFInfo, error) {
	r := e.call("bf.info", key)
	n := r.numbers()
	return BFInfo{n[0], n[1], n[2], n[3], n[4]}, r.Err()
}

// BFInfoArg is the one number of [Engine.BFInfo] that option names: "CAPACITY", "SIZE", "FILTERS",
// "ITEMS" or "EXPANSION".
func (e *Engine) BFInfoArg(key, option string) (int64, error) {
	r := e.call("bf.info", key, option)
	return r.numbers()[0], r.Err()
}

// BFInfoCapacity is [Engine.BFInfoArg] for CAPACITY.
func (e *Engine) BFInfoCapacity(key string) (int64, error) { return e.BFInfoArg(key, "CAPACITY") }

// BFInfoSize is [Engine.BFInfoArg] for SIZE.
func (e *Engine) BFInfoSize(key string) (int64, error) { return e.BFInfoArg(key, "SIZE") }

// BFInfoFilters is [Engine.BFInfoArg] for FILTERS.
func (e *Engine) BFInfoFilters(key string) (int64, error) { return e.BFInfoArg(key, "FILTERS") }

// BFInfoItems is [Engine.BFInfoArg] for ITEMS.
func (e *Engine) BFInfoItems(key string) (int64, error) { return e.BFInfoArg(key, "ITEMS") }

// BFInfoExpansion is [Engine.BFInfoArg] for EXPANSION.
func (e *Engine) BFInfoExpansion(key string) (int64, error) { return e.BFInfoArg(key, "EXPANSION") }

// BFScanDump returns the piece of a filter at iterator, from 0 on, at most 16 MiB of it. Give
// each Iter and its Data to [Engine.BFLoadChunk], and go on with that Iter
// until it is 0. A filter that is written to meanwhile can come out torn.
func (e *Engine) BFScanDump(key string, iterator int64) (ScanDump, error) {
	return e.call("bf.scandump", key, formatInt(iterator)).scanDump()
}

// BFLoadChunk takes a piece with the iterator that came with it. The first, with iterator 1, makes the key,
// which must not exist; until the last one is here, commands that need the filter answer
// [ErrIncomplete]. A piece that is written to a complete filter replaces what is there.
func (e *Engine) BFLoadChunk(key string, iterator int64, data string) error {
	return e.call("bf.loadchunk", key, formatInt(iterator), data).Err()
}

// BFDebug describes a filter and each of its links, a line each.
func (e *Engine) BFDebug(key string) ([]string, error) {
	r := e.call("bf.debug", key)
	var lines []string
	for _, elem := range r.Elems {
		lines = append(lines, elem.Str)
	}
	return lines, r.Err()
}
