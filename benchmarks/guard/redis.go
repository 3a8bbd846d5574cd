package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"
)

var errNoRedis = errors.New("no redis-server")

// redisServer is a server on this machine, and a connection to it.
type redisServer struct {
	process *exec.Cmd
	conn    net.Conn
	in      *bufio.Reader
}

// startRedis starts the redis-server on the PATH, with a bitmap of a megabyte.
func startRedis() (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().(*net.TCPAddr)
	free.Close()
	r := &redisServer{process: exec.Command(path, "--bind", "127.0.0.1", "--port", fmt.Sprint(addr.Port), "--save", "", "--appendonly", "no")}
	if err := r.process.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		if r.conn, err = net.Dial("tcp", addr.String()); err == nil {
			r.in = bufio.NewReader(r.conn)
			if err = r.do("SETBIT filter 8388607 1"); err == nil {
				return r, nil
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.stop()
	return nil, err
}

func (r *redisServer) stop() {
	if r.conn != nil {
		r.conn.Close()
	}
	_ = r.process.Process.Kill()
	_ = r.process.Wait() // says that it was killed
}

// do sends a command and reads its answer, which must be 0.
func (r *redisServer) do(command string) error {
	if _, err := r.conn.Write([]byte(command + "\r\n")); err != nil {
		return err
	}
	answer, err := r.in.ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, ":0") {
		err = fmt.Errorf("%s: %q", command, answer)
	}
	return err
}

// getBit asks for one bit: less than any filter there would ask for.
func (r *redisServer) getBit(i int) error {
	return r.do(fmt.Sprintf("GETBIT filter %d", i*7919%8388607))
}
