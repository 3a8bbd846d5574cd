package bloomd_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom/bloomd"
)

// A server in this process, and a client of Redis that cannot tell it from one with the module.
func ExampleNew() {
	server, err := bloomd.New(bloomd.Config{Password: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(ln) // until Close, or Shutdown, which saves what Config.File is to have

	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: ln.Addr().String(), Password: "secret"})
	defer client.Close()
	fmt.Println(client.BFReserve(ctx, "seen", 0.001, 1_000_000).Result())
	fmt.Println(client.BFAdd(ctx, "seen", "alice").Result())
	fmt.Println(client.BFMExists(ctx, "seen", "alice", "bob").Result())
	fmt.Println(server.Engine().BFCard("seen")) // without the network
	// Output:
	// OK <nil>
	// true <nil>
	// [true false] <nil>
	// 1 <nil>
}
