package goredis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
)

// This file tries requests again, and says after which errors that is of use.

// retrier does things again that failed for want of a connection.
type retrier struct{ attempts int }

func (t *retrier) do(ctx context.Context, f func() error) error {
	attempts := t.attempts
	if attempts <= 0 {
		attempts = 10
	}
	wait := 20 * time.Millisecond
	for {
		err := f()
		if attempts--; err == nil || attempts == 0 || !transient(err) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// transient reports whether err may pass: the connection broke, or the server is starting or moving.
func transient(err error) bool {
	var reply redis.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, redis.ErrClosed), errors.Is(err, redis.TxFailedErr):
		return false
	case err == errAgain, err == errDone, errors.Is(err, ErrUnknown), errors.Is(err, ErrSuperseded):
		return false
	case errors.As(err, &reply):
		for _, prefix := range []string{"LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "BUSY", "ERR max number of clients"} {
			if strings.HasPrefix(reply.Error(), prefix) {
				return true
			}
		}
		return false
	}
	for _, final := range []error{bloom.ErrInvalid, bloom.ErrCorrupt, bloom.ErrIncomplete, bloom.ErrMismatch, bloom.ErrFull, bloom.ErrTooLarge, bloom.ErrVersion, ErrExists, ErrChanging} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}
