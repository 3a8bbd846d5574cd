package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom/bloomd"
)

// startBloomd starts a server with the BF and CF commands in this process, on a free port. Stop ends it.
func startBloomd(w io.Writer) (client *redis.Client, stop func(), err error) {
	s, err := bloomd.New(bloomd.Config{})
	if err != nil {
		return nil, nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	go s.Serve(ln)
	fmt.Fprintln(w, "server: bloomd, in this process")
	client = redis.NewClient(&redis.Options{Addr: ln.Addr().String(), MaxRetries: -1, DialerRetries: 1})
	return client, func() { s.Close() }, nil
}

// startRedis starts the redis-server of this machine, on a socket in a directory of its own. Stop ends it and removes
// the directory.
func startRedis(ctx context.Context, w io.Writer) (client *redis.Client, stop func(), err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, nil, errors.New("this program needs a redis-server, and there is none in the PATH")
	}
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(dir, "socket")
	server := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := server.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	client = redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	stop = func() {
		client.Close()
		server.Process.Kill()
		server.Wait()
		os.RemoveAll(dir)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, statErr := os.Stat(socket); statErr == nil { // until then the client would only log that there is nothing
			if err = client.Ping(ctx).Err(); err == nil {
				break
			}
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			stop()
			return nil, nil, errors.Join(errors.New("redis-server does not start"), err, ctx.Err())
		}
	}
	version := "?"
	if info, err := client.InfoMap(ctx, "server").Result(); err == nil {
		version = info["Server"]["redis_version"]
	}
	fmt.Fprintf(w, "server: redis-server %s, no modules\n", version)
	return client, stop, nil
}
