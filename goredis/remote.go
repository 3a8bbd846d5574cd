package goredis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// Errors of this package; test with [errors.Is]. Others are those of package bloom (bloom.ErrInvalid, bloom.ErrFull,
// bloom.ErrTooLarge, bloom.ErrMismatch), of go-redis, and of the context.
var (
	// ErrUnknown says that the filter in Redis is not there, or that nobody vouches for its being whole. The text tells
	// which. Lookups answer guard.Unknown then.
	ErrUnknown = errors.New("goredis: the filter is not to be relied on")

	// ErrNoModule says that the server does not know the BF or CF commands.
	ErrNoModule = errors.New("goredis: the server has no Bloom filter module")

	// ErrWrongType says that the key holds something else than the filter.
	ErrWrongType = errors.New("goredis: the key holds another type")

	// ErrExists says that there is a filter already.
	ErrExists = errors.New("goredis: the key exists")

	// ErrSuperseded says that a later Rebuild, Push, Abort or Drop ended this one, or an add that cannot
	// go to both filters (the new one is full, or has other parameters), or that what it was writing got
	// lost, or may be, by a restart or a failover.
	ErrSuperseded = errors.New("goredis: superseded, or lost, while it was being written")

	// ErrChanging says that a filter changed so much while it was pulled that no whole copy could be had.
	ErrChanging = errors.New("goredis: the filter kept changing")
)

// Options are the options that all filters have.
type Options struct {
	// Durable says that the servers never lose a write that they acknowledged: they do not evict, append every write
	// to disk before they reply (appendfsync always), and no failover goes to a replica that lacks writes. Then
	// a restart, a failover or a move to another node of a cluster does not make the filter Unknown. Without it,
	// it does, until Confirm, Rebuild or Push.
	Durable bool
}

// remote is what the filters have in common: their keys, and the marker that says they are whole.
type remote struct {
	client                           redis.UniversalClient
	key, gen, next, load, log, build string
	shape                            string // what must be equal for all who use the key
	durable                          bool
	kind                             kind
}

// kind is what differs.
type kind interface {
	// probe queues commands that show whether a filter is at key. After they ran, present tells that, and size is a number
	// that does not fall as long as the filter is the same one.
	probe(ctx context.Context, p redis.Pipeliner, key string) (answer func() (present bool, size uint64, err error))
}

func newRemote(client redis.UniversalClient, key, shape string, o Options, k kind) (*remote, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: the client is nil", bloom.ErrInvalid)
	}
	if _, ring := client.(*redis.Ring); ring {
		return nil, fmt.Errorf("%w: a Ring sends a key to another server while its own is down, and what is added there is not in the filter that comes back: take the client of one shard (GetShardClientForKey)", bloom.ErrInvalid)
	}
	sibling, err := siblings(key)
	if err != nil {
		return nil, err
	}
	return &remote{
		client: client, key: key, gen: sibling("gen"), next: sibling("next"), load: sibling("load"), log: sibling("log"), build: sibling("build"),
		shape: shape, durable: o.Durable, kind: k,
	}, nil
}

// siblings returns the function that names other keys in the slot of key.
func siblings(key string) (func(name string) string, error) {
	if i := strings.IndexByte(key, '{'); i >= 0 && strings.IndexByte(key[i+1:], '}') > 0 {
		return func(name string) string { return key + ":" + name }, nil
	}
	if key == "" || strings.Contains(key, "}") {
		return nil, fmt.Errorf("%w: no other key can be in the cluster slot of key %q: give it a hash tag, as in {%s}", bloom.ErrInvalid, key, strings.Trim(key, "{}"))
	}
	return func(name string) string { return "{" + key + "}~" + name }, nil
}

// Key returns the key of the filter.
func (r *remote) Key() string { return r.key }

// marker is the value of the key gen, if the filter is whole. If not, the value is bare and the shape.
type marker struct {
	shape, generation, history string
	size                       uint64 // that the filter had when it was marked
}

func newID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

func (m marker) String() string {
	return fmt.Sprintf("1 %s %s %s %d", m.shape, m.generation, m.history, m.size)
}

func parseMarker(s string) (m marker, ok bool) {
	f := strings.Split(s, " ")
	if len(f) != 5 || f[0] != "1" {
		return m, false
	}
	size, err := strconv.ParseUint(f[4], 10, 64)
	return marker{f[1], f[2], f[3], size}, err == nil
}

const (
	bare      = "0 "
	noHistory = "-" // of a marker by who trusts the server
)

// historyOf returns the ID of the history of the data of a server that may be written to, from INFO replication.
func historyOf(info string) (string, error) {
	field := func(name string) string {
		_, after, _ := strings.Cut("\n"+info, "\n"+name+":")
		value, _, _ := strings.Cut(after, "\r")
		return value
	}
	if role := field("role"); role != "master" {
		return "", fmt.Errorf("%w: the server's role is %q, and a replica may lack writes", ErrUnknown, role)
	}
	id := field("master_replid")
	if id == "" || strings.ContainsAny(id, " \n") {
		return "", fmt.Errorf("%w: the server tells no replication ID, so a restart cannot be seen; see Options.Durable", ErrUnknown)
	}
	return id, nil
}

// askHistory queues a command that shows the history of the server's data, unless r trusts the server.
func (r *remote) askHistory(ctx context.Context, p redis.Pipeliner) *redis.Cmd {
	if r.durable {
		return nil
	}
	if _, single := r.client.(*redis.Client); single {
		return p.Do(ctx, "INFO", "replication")
	}
	// A command without keys does not find the right node.
	return p.Eval(ctx, "return redis.call('INFO', 'replication')", []string{r.key})
}

// toldHistory reads what was asked for.
func (r *remote) toldHistory(cmd *redis.Cmd) (string, error) {
	if r.durable {
		return noHistory, nil
	}
	info, err := cmd.Text()
	if err != nil {
		return "", r.explain(err)
	}
	return historyOf(info)
}

// history asks for the history alone.
func (r *remote) history(ctx context.Context) (string, error) {
	if r.durable {
		return noHistory, nil
	}
	var info *redis.Cmd
	if err := r.tx(ctx, func(p redis.Pipeliner) { info = r.askHistory(ctx, p) }); err != nil {
		return "", err
	}
	return r.toldHistory(info)
}

// sight is what the commands of one transaction show of the filter.
type sight struct {
	r     *remote
	gen   *redis.StringCmd
	info  *redis.Cmd
	probe func() (present bool, size uint64, err error)
}

// see queues the commands.
func (r *remote) see(ctx context.Context, p redis.Pipeliner) *sight {
	return &sight{r: r, gen: p.Get(ctx, r.gen), info: r.askHistory(ctx, p), probe: r.kind.probe(ctx, p, r.key)}
}

// found returns the size of the filter, or an error if there is none, and the server's history.
func (s *sight) found() (size uint64, history string, err error) {
	present, size, err := s.probe()
	if err != nil {
		return 0, "", s.r.explain(err)
	}
	if !present {
		return 0, "", fmt.Errorf("%w: there is no filter at key %q", ErrUnknown, s.r.key)
	}
	history, err = s.r.toldHistory(s.info)
	return size, history, err
}

// judge returns the marker, and nil if the filter is whole. The error wraps ErrUnknown if it is not, and
// bloom.ErrMismatch if others use it with other parameters.
func (s *sight) judge() (marker, error) {
	text, err := s.gen.Result()
	if err != nil && err != redis.Nil {
		return marker{}, s.r.explain(err)
	}
	m, ok := parseMarker(text)
	if err := s.r.sameShape(text); err != nil {
		return m, err
	}
	size, history, found := s.found()
	switch {
	case found != nil:
		return m, found
	case strings.HasPrefix(text, bare), err == redis.Nil:
		return m, fmt.Errorf("%w: nobody has marked the filter at key %q as whole, which key %q would say", ErrUnknown, s.r.key, s.r.gen)
	case !ok:
		return m, fmt.Errorf("%w: key %q holds %.80q, which is no marker", ErrUnknown, s.r.gen, text)
	case m.history != history && !s.r.durable:
		return m, fmt.Errorf("%w: the server's data is of history %.12s and the filter at key %q was marked in %.12s: a restart or a failover may have lost writes",
			ErrUnknown, history, s.r.key, m.history)
	case size < m.size:
		return m, fmt.Errorf("%w: the filter at key %q had %d when it was marked and has %d now: it is another one", ErrUnknown, s.r.key, m.size, size)
	}
	return m, nil
}

// sameShape returns an error if text is the marker of a filter with other parameters.
func (r *remote) sameShape(text string) error {
	shape, there := strings.CutPrefix(text, bare)
	if m, ok := parseMarker(text); ok {
		shape, there = m.shape, true
	}
	if there && shape != r.shape {
		return r.otherShape(shape)
	}
	return nil
}

func (r *remote) otherShape(there string) error {
	return fmt.Errorf("%w: the filter at key %q is used as %s here and was marked as %s", bloom.ErrMismatch, r.key, r.shape, there)
}

// explain says what a reply means that is an error.
func (r *remote) explain(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) || err == redis.Nil {
		return err
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE"):
		return fmt.Errorf("%w: %q: %w", ErrWrongType, r.key, err)
	case strings.HasPrefix(text, "ERR unknown command") && strings.Contains(strings.ToLower(text), r.shape+"."):
		return fmt.Errorf("%w: %w", ErrNoModule, err)
	case strings.Contains(text, "filter is full"), strings.Contains(text, "Filter is full"), strings.Contains(text, "Maximum expansions"):
		return fmt.Errorf("%w: key %q: %w", bloom.ErrFull, r.key, err)
	}
	return err
}

// isReply reports whether err is an answer of the server that begins with prefix.
func isReply(err error, prefix string) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(err.Error(), prefix)
}

// tx runs the commands that queue queues in one transaction. Errors of single commands are left to who reads them; the
// error is for when none of them ran, or nobody knows.
func (r *remote) tx(ctx context.Context, queue func(p redis.Pipeliner)) error {
	cmds, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error { queue(p); return nil })
	return r.txError(cmds, err)
}

func (r *remote) txError(cmds []redis.Cmder, err error) error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.TxFailedErr) {
		return err
	}
	for _, cmd := range cmds { // err is the first only: the connection may have broken after that
		if err := cmd.Err(); err != nil && !errors.As(err, &reply) {
			return err
		}
	}
	if err == redis.Nil { // that of a GET
		return nil
	}
	// A command that could not be queued has its own error, the others are told of that.
	for _, cmd := range cmds {
		if isReply(cmd.Err(), "EXECABORT") {
			for _, cause := range cmds {
				if err := cause.Err(); err != nil && !isReply(err, "EXECABORT") {
					return r.explain(err)
				}
			}
			return cmd.Err()
		}
	}
	for _, cmd := range cmds { // one error for all is not that of a command
		if cmd.Err() == nil || cmd.Err().Error() != err.Error() {
			return nil
		}
	}
	if len(cmds) > 1 {
		return r.explain(err)
	}
	return nil
}

// Ready returns nil if lookups answer Absent and Maybe, and otherwise why they answer Unknown. It takes one round trip.
// The error wraps [ErrUnknown], or is one that lookups return too.
func (r *remote) Ready(ctx context.Context) error {
	_, err := r.look(ctx)
	return err
}

func (r *remote) look(ctx context.Context) (marker, error) {
	var s *sight
	if err := r.tx(ctx, func(p redis.Pipeliner) { s = r.see(ctx, p) }); err != nil {
		return marker{}, err
	}
	return s.judge()
}

// confirm marks the filter, if the server's history is the one given, or none is given.
func (r *remote) confirm(ctx context.Context, history string) error {
	return r.client.Watch(ctx, func(tx *redis.Tx) error {
		var build *redis.StringCmd
		var s *sight
		cmds, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
			build, s = p.Get(ctx, r.build), r.see(ctx, p)
			return nil
		})
		if err := r.txError(cmds, err); err != nil {
			return err
		}
		if strings.HasSuffix(build.Val(), swapped) {
			return ErrSuperseded
		}
		if history == "" { // else the caller has just made the filter, whatever was there before
			if err := r.sameShape(s.gen.Val()); err != nil {
				return err
			}
		}
		return r.mark(ctx, tx, s, newID(), history)
	}, r.build)
}

// mark writes the marker, and what else queue does, on the connection that s was seen on. If a history is given, it
// must be the server's: there have been writes since then that must all be there.
func (r *remote) mark(ctx context.Context, tx *redis.Tx, s *sight, generation, since string, queue ...func(p redis.Pipeliner)) error {
	size, history, err := s.found()
	if err != nil {
		return err
	}
	if since != "" && history != since {
		return errHistory
	}
	m := marker{r.shape, generation, history, size}
	_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, r.gen, m.String(), 0)
		for _, f := range queue {
			f(p)
		}
		return nil
	})
	if errors.Is(err, redis.TxFailedErr) {
		return ErrSuperseded
	}
	return err
}

var errHistory = fmt.Errorf("%w: a restart or a failover came between, and may have lost writes", ErrSuperseded)

// Drop deletes the filter and all that belongs to it, and ends a Rebuild or Push under way.
func (r *remote) Drop(ctx context.Context) error {
	return r.client.Del(ctx, r.gen, r.key, r.next, r.load, r.log, r.build).Err()
}

// Abort ends a Rebuild or Push, wherever it runs, and deletes what it has written. The filter in use stays as it is.
// Call it to clean up after a process that died in one; until then every add goes to both filters.
func (r *remote) Abort(ctx context.Context) error {
	return r.abort(ctx, r.client).Err()
}

func (r *remote) abort(ctx context.Context, c redis.Cmdable) *redis.IntCmd {
	return c.Del(ctx, r.build, r.next, r.load, r.log)
}

func verdict(contained bool) guard.Verdict {
	if contained {
		return guard.Maybe
	}
	return guard.Absent
}

// unknowns appends n verdicts Unknown, and returns err unless it says just that.
func unknowns(dst []guard.Verdict, n int, err error) ([]guard.Verdict, error) {
	dst = append(dst, make([]guard.Verdict, n)...)
	if isUnknown(err) {
		return dst, nil
	}
	return dst, err
}

func isUnknown(err error) bool { return errors.Is(err, ErrUnknown) }

// ignoreUnknown returns what an add returns, to a caller to whom it makes no difference that there is no filter.
func ignoreUnknown(err error) (stored bool, _ error) {
	if isUnknown(err) {
		return false, nil
	}
	return err == nil, err
}
