package bloomdtest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
)

// exampleT stands for the t of a test, which an example does not have.
type exampleT struct {
	testing.TB
	end func()
}

func (*exampleT) Helper()            {}
func (*exampleT) Fatal(args ...any)  { log.Fatal(args...) }
func (t *exampleT) Cleanup(f func()) { t.end = f }

func ExampleStart() {
	t := &exampleT{} // func TestSeen(t *testing.T)
	defer func() { t.end() }()

	server := bloomdtest.Start(t, func(c *bloomd.Config) { c.Password = "secret" })
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "secret"})
	defer client.Close()
	fmt.Println(client.BFAdd(context.Background(), "seen", "alice").Result())
	fmt.Println(server.Engine().BFExists("seen", "alice")) // what the code under test has written
	// Output:
	// true <nil>
	// true <nil>
}
