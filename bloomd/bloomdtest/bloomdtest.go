// Package bloomdtest starts a server of RedisBloom's commands in a test, without Docker and without a network beyond
// this machine:
//
//	func TestSeen(t *testing.T) {
//		client := redis.NewClient(&redis.Options{Addr: bloomdtest.Start(t).Addr()})
//		…
//	}
package bloomdtest

import (
	"net"
	"testing"

	"github.com/redbloom-go/bloom/bloomd"
)

// Server is a server that a test has for itself.
type Server struct {
	*bloomd.Server
	ln net.Listener
}

// Start starts an empty server on a free port of the loopback interface; configure, where given, changes its
// configuration first. It ends with the test. Start fails the test if it cannot.
func Start(t testing.TB, configure ...func(*bloomd.Config)) *Server {
	t.Helper()
	var c bloomd.Config
	for _, f := range configure {
		f(&c)
	}
	s, err := bloomd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(ln)
	}()
	t.Cleanup(func() {
		s.Close()
		ln.Close() // where Serve had not begun
		<-done
	})
	return &Server{s, ln}
}

// Addr returns the address to connect to, as "127.0.0.1:34567".
func (s *Server) Addr() string { return s.ln.Addr().String() }
