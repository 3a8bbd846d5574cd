package redisbloom_test

import (
	"fmt"

	"github.com/redbloom-go/bloom/redisbloom"
)

func ExampleNew() {
	e := redisbloom.New()
	e.BFReserve("seen", 0.001, 1_000_000)
	fmt.Println(e.BFAdd("seen", "alice"))
	fmt.Println(e.BFExists("seen", "alice"))
	fmt.Println(e.BFExists("seen", "bob"))
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

// Any command, and its reply as it goes over the wire in RESP3 and in RESP2.
func ExampleEngine_Do() {
	e := redisbloom.New()
	e.Do([]byte("cf.add"), []byte("sessions"), []byte("s1"))
	reply := e.Do([]byte("cf.exists"), []byte("sessions"), []byte("s1"))
	fmt.Printf("%q %q\n", reply.Append(nil, 3), reply.Append(nil, 2))

	fmt.Println(e.Do([]byte("bf.add"), []byte("sessions"), []byte("s1")).Err())
	// Output:
	// "#t\r\n" ":1\r\n"
	// WRONGTYPE Operation against a key holding the wrong kind of value
}

// From one keyspace to another by the dumps that BF.SCANDUMP gives and BF.LOADCHUNK takes; either could be
// a Redis server.
func ExampleEngine_BFScanDump() {
	here, there := redisbloom.New(), redisbloom.New()
	here.BFAdd("seen", "alice")
	for cursor := int64(0); ; {
		dump, err := here.BFScanDump("seen", cursor)
		if err != nil {
			fmt.Println(err)
			return
		}
		if dump.Iter == 0 {
			break
		}
		if err := there.BFLoadChunk("seen", dump.Iter, dump.Data); err != nil {
			fmt.Println(err)
			return
		}
		cursor = dump.Iter
	}
	fmt.Println(there.BFExists("seen", "alice"))
	// Output: true <nil>
}
