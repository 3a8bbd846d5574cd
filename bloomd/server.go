// Package bloomd serves the BF.* and CF.* commands of RedisBloom over the network, in RESP2 and RESP3, from
// filters in the memory of this process: for tests, sidecars and small machines where a Redis server is too much. The
// keys are those of a [redisbloom.Engine], which the process can use at the same time.
//
//	s, err := bloomd.New(bloomd.Config{File: "keys.bloomd"})
//	ln, err := net.Listen("tcp", "127.0.0.1:6379")
//	err = s.Serve(ln)
//
// The command cmd/bloomd is this with flags; the package bloomdtest starts a server in a test.
package bloomd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom/redisbloom"
)

// Config says how a [Server] serves. The zero value of every field is a default that is fit for use.
type Config struct {
	// Engine has the keys; by default a new one. With File it should be empty.
	Engine *redisbloom.Engine
	// File is where SAVE and a clean shutdown write all keys, and where New reads them if the file exists. By default keys
	// are in memory only.
	File string
	// SaveInterval is how often keys are written to File besides, if a write command came since. By default they are not.
	SaveInterval time.Duration
	// Password must be given with AUTH or HELLO, as that of the user "default", before any other command. By default
	// none is asked for.
	Password string

	// MaxClients bounds the connections at a time; 10,000 by default. Further ones are told so and closed.
	MaxClients int
	// MaxArgs and MaxBulk bound the arguments of a command and the bytes of one: 1,048,576 and 64 MiB by default.
	// MaxCommand bounds a whole command with what the protocol puts around its arguments: MaxBulk and 1 MiB
	// by default. A client that passes them is told so and disconnected.
	MaxArgs, MaxBulk, MaxCommand int
	// MaxBuffers bounds the memory of all connections for commands that have not come to their end and their
	// replies, beside some 16 KiB a connection: 256 MiB by default, and never below 4·MaxCommand. A client that would
	// pass it is told so and disconnected.
	MaxBuffers int64

	// CommandTimeout is how long a command may take to come once it has begun, plus a second for every 4 KiB that
	// came: a minute by default. WriteTimeout is how long a client may take to accept 64 KiB of replies: a minute
	// by default. IdleTimeout is how long a connection may be silent between commands: for ever by default.
	// Clients that are too slow are disconnected.
	CommandTimeout, WriteTimeout, IdleTimeout time.Duration

	// Loops is how many goroutines share out the connections among them, each with an epoll instance of its own: those
	// of TCP and of Unix sockets, without TLS, on Linux. By default there are none, and every connection has a goroutine.
	// Where the server has a process to itself, one loop for two processors answers more commands a second; while clients
	// are never silent for 0.1 ms it hardly sleeps. Clients in the same process are answered sooner without.
	Loops int

	// Logger gets what an operator should know: loading, saving, connections that were refused. By default
	// nothing is logged.
	Logger *slog.Logger
}

func (c *Config) setDefaults() {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&c.MaxClients, 10_000)
	set(&c.MaxArgs, 1<<20)
	set(&c.MaxBulk, 64<<20)
	set(&c.MaxCommand, c.MaxBulk+1<<20)
	if c.MaxBuffers <= 0 {
		c.MaxBuffers = 256 << 20
	}
	c.MaxBuffers = max(c.MaxBuffers, 4*int64(c.MaxCommand))
	if c.CommandTimeout <= 0 {
		c.CommandTimeout = time.Minute
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = time.Minute
	}
	if c.Engine == nil {
		c.Engine = redisbloom.New()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Server is a server. Make one with [New]. Its methods may be called from any goroutine.
type Server struct {
	Config
	engine   *redisbloom.Engine
	do       do                // engine.Do
	limits   limits            // of a command
	password [sha256.Size]byte // its hash, so that comparing takes one time whatever its length
	started  time.Time
	runID    string // 40 hexadecimal digits, others at each start
	loops    loops

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	killed    bool // what is still open is closed by force
	closing   atomic.Bool
	running   sync.WaitGroup // connections, and the saving now and then
	stop      chan struct{}  // closed at shutdown
	shutdown  chan struct{}  // closed when a client asks for it
	askOnce   sync.Once
	ended     sync.Once

	buffers atomic.Int64 // bytes that count against MaxBuffers

	saving   atomic.Bool
	dirty    atomic.Bool  // a write command came since the last save
	lastSave atomic.Int64 // Unix seconds
	saveErr  atomic.Pointer[string]

	lastID   atomic.Uint64
	accepted atomic.Uint64
	commands atomic.Uint64
}

// New returns a server with the keys in Config.File. If the file is damaged, or its keys pass the engine's
// memory limit, it returns an error that says so and starts with nothing: the file stays as it is. A file
// that does not exist is one without keys.
func New(c Config) (*Server, error) {
	c.setDefaults()
	s := &Server{
		Config: c, engine: c.Engine, do: c.Engine.Do, limits: limits{args: c.MaxArgs, bulk: c.MaxBulk, command: c.MaxCommand}, password: sha256.Sum256([]byte(c.Password)), started: time.Now(), runID: newRunID(),
		loops:     newLoops(c.Loops),
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
		stop: make(chan struct{}), shutdown: make(chan struct{}),
	}
	s.lastSave.Store(s.started.Unix())
	if c.File != "" {
		switch err := s.engine.Load(c.File); {
		case errors.Is(err, fs.ErrNotExist):
			s.Logger.Info("no file of keys yet", "file", c.File)
		case err != nil:
			return nil, fmt.Errorf("loading keys: %w", err)
		default:
			s.Logger.Info("loaded", "file", c.File, "keys", s.engine.Len())
		}
		if c.SaveInterval > 0 {
			s.running.Go(s.saveNowAndThen)
		}
	}
	return s, nil
}

func newRunID() string {
	var id [20]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Engine returns what has the server's keys.
func (s *Server) Engine() *redisbloom.Engine { return s.engine }

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("bloomd: server closed")

// Serve accepts connections on ln and serves each until the server is shut down, when it returns [ErrServerClosed]. If
// ln is closed before, it returns the error that says so; after other errors it goes on, after a pause of up to a
// second. It closes ln at the end. The connections are the server's: a loop closes one of package net and goes on with
// its socket. A listener of crypto/tls makes it serve TLS. Several Serve calls may run at the same time.
func (s *Server) Serve(ln net.Listener) error {
	defer ln.Close()
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, ln)
		s.mu.Unlock()
	}()
	wait := time.Millisecond
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			wait = time.Millisecond
			s.admit(nc)
		case s.closing.Load():
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return err
		default: // out of file descriptors, as a rule: others will close theirs
			s.Logger.Error("accept", "error", err)
			select {
			case <-time.After(wait):
			case <-s.stop:
			}
			wait = min(2*wait, time.Second)
		}
	}
}

// admit starts to serve a connection, if there is room for one more.
func (s *Server) admit(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		nc.Close()
		return
	}
	s.accepted.Add(1)
	if len(s.conns) >= s.MaxClients {
		s.running.Go(func() {
			nc.SetDeadline(time.Now().Add(time.Second))
			nc.Write([]byte("-ERR max number of clients reached\r\n"))
			nc.Close()
		})
		return
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	go c.serve()
}

// Shutdown ends the server: it closes the listeners, lets every connection finish the commands that were read from it
// and closes it, and then saves the keys if there is a file for them. It returns the error of that, and of ctx if
// connections did not end before; those are closed by force then, and the keys are saved all the same.
func (s *Server) Shutdown(ctx context.Context) error { return s.end(ctx, true) }

// Close ends the server at once and without saving.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.end(ctx, false)
	return nil
}

// ShutdownAsked returns a channel that is closed when a client sends SHUTDOWN: whoever runs the server should then
// shut it down.
func (s *Server) ShutdownAsked() <-chan struct{} { return s.shutdown }

func (s *Server) end(ctx context.Context, save bool) error {
	s.mu.Lock()
	s.closing.Store(true)
	s.ended.Do(func() { close(s.stop) })
	for ln := range s.listeners {
		ln.Close()
	}
	for c := range s.conns { // wake it up
		if c.nc == nil {
			c.shut(false)
		} else {
			c.nc.SetReadDeadline(time.Now())
		}
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		var open []stream
		s.mu.Lock()
		s.killed = true
		for c := range s.conns {
			if c.nc == nil {
				c.shut(true)
			} else {
				open = append(open, c.nc)
			}
		}
		s.mu.Unlock()
		for _, nc := range open {
			nc.Close() // waits for the command that runs, which may need s.mu
		}
		<-done
	}
	if save && s.File != "" {
		if failed := s.save(); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return err
}

var errSaving = errors.New("a save is under way")

// save writes all keys to the file.
func (s *Server) save() error {
	if !s.saving.CompareAndSwap(false, true) {
		return errSaving
	}
	defer s.saving.Store(false)
	start := time.Now()
	s.dirty.Store(false)
	err := s.engine.Save(s.File)
	if err != nil {
		s.dirty.Store(true)
		text := err.Error()
		s.saveErr.Store(&text)
		s.Logger.Error("saving failed", "file", s.File, "error", err)
		return err
	}
	s.saveErr.Store(nil)
	s.lastSave.Store(time.Now().Unix())
	s.Logger.Info("saved", "file", s.File, "keys", s.engine.Len(), "took", time.Since(start))
	return nil
}

func (s *Server) saveNowAndThen() {
	for tick := time.NewTicker(s.SaveInterval); ; {
		select {
		case <-tick.C:
			if s.dirty.Load() {
				s.save()
			}
		case <-s.stop:
			tick.Stop()
			return
		}
	}
}
