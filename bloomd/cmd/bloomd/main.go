// Command bloomd serves RedisBloom's BF.* and CF.* commands from memory: see docs/BLOOMD.md.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/redisbloom"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bloomd:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	config                 bloomd.Config
	addr, password         string
	maxMemory              string
	tlsCert, tlsKey, tlsCA string
	shutdownTimeout        time.Duration
	quiet                  bool
}

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	f := flag.NewFlagSet("bloomd", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.addr, "addr", "127.0.0.1:6379", "`address` to listen on")
	f.StringVar(&o.password, "password", "", "`password` that clients must give; also from the environment, as BLOOMD_PASSWORD")
	f.StringVar(&o.config.File, "file", "", "`file` to keep the keys in: read at the start, written by SAVE and at the end")
	f.DurationVar(&o.config.SaveInterval, "save-interval", 0, "write the file that often too, if something changed (default never)")
	f.StringVar(&o.maxMemory, "max-memory", "", "`limit` for the keys, as 512mb or 4gb; 0 is none (default three quarters of the machine's or container's memory)")
	f.StringVar(&o.tlsCert, "tls-cert", "", "`file` with a certificate chain (PEM): serve TLS")
	f.StringVar(&o.tlsKey, "tls-key", "", "`file` with its private key (PEM)")
	f.StringVar(&o.tlsCA, "tls-ca", "", "`file` with certificates (PEM); clients must have one that these signed")
	f.IntVar(&o.config.Loops, "loops", runtime.GOMAXPROCS(0)/2, "`number` of goroutines that share out the connections, on Linux; 0 gives each connection its own. One for two\nprocessors answers most where the clients are other processes")
	f.IntVar(&o.config.MaxClients, "max-clients", 10_000, "`number` of connections at a time")
	f.DurationVar(&o.config.IdleTimeout, "idle-timeout", 0, "close connections that send nothing for so long (default never)")
	f.DurationVar(&o.config.CommandTimeout, "command-timeout", time.Minute, "how long one command may take to come")
	f.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long connections may take to end at a shutdown")
	f.BoolVar(&o.quiet, "quiet", false, "log errors only")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unknown argument %q", f.Arg(0))
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return nil, errors.New("-tls-cert and -tls-key belong together")
	case o.tlsCA != "" && o.tlsCert == "":
		return nil, errors.New("-tls-ca needs -tls-cert and -tls-key")
	case o.config.SaveInterval != 0 && o.config.File == "":
		return nil, errors.New("-save-interval needs -file")
	}
	if o.config.Password = o.password; o.password == "" {
		o.config.Password = os.Getenv("BLOOMD_PASSWORD")
	}
	level := slog.LevelInfo
	if o.quiet {
		level = slog.LevelError
	}
	o.config.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	o.config.Engine = redisbloom.New()
	if o.maxMemory == "" {
		o.config.Engine.SetMaxMemory(memoryLimit())
	} else if err := o.config.Engine.ConfigSet("maxmemory", o.maxMemory); err != nil {
		return nil, fmt.Errorf("-max-memory %q is no size", o.maxMemory)
	}
	return &o, nil
}

// tlsConfig returns nil without -tls-cert.
func (o *options) tlsConfig() (*tls.Config, error) {
	if o.tlsCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.tlsCA != "" {
		pem, err := os.ReadFile(o.tlsCA)
		if err != nil {
			return nil, err
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", o.tlsCA)
		}
	}
	return c, nil
}

// run serves until ctx is done or a client asks for the end, and then saves.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	secure, err := o.tlsConfig()
	if err != nil {
		return err
	}
	s, err := bloomd.New(o.config)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.addr)
	if err != nil {
		return err
	}
	log := o.config.Logger
	if a, ok := ln.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && o.config.Password == "" && o.tlsCA == "" {
		log.Warn("everyone who can reach this address can read and delete all keys: set a password", "addr", a)
	}
	log.Info("listening", "addr", ln.Addr(), "tls", secure != nil, "maxmemory", o.config.Engine.MaxMemory(), "keys", s.Engine().Len())
	if secure != nil {
		ln = tls.NewListener(ln, secure)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	select {
	case err := <-served:
		return errors.Join(err, shutdown(s, o.shutdownTimeout))
	case <-ctx.Done():
		log.Info("shutting down", "why", "signal")
	case <-s.ShutdownAsked():
		log.Info("shutting down", "why", "SHUTDOWN")
	}
	return shutdown(s, o.shutdownTimeout)
}

func shutdown(s *bloomd.Server, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := s.Shutdown(ctx)
	if err == context.DeadlineExceeded { // and nothing else: clients that did not end; the keys are saved
		return nil
	}
	return err
}
