package redisbloom

import "errors"

// ErrorReply is an error as it goes over the wire: a code, by which clients tell errors apart, and a
// message. Several of the server's errors have no code.
//
// Errors with the same text are equal, so that [errors.Is] finds one of the constants
// below.
type ErrorReply string

// Error returns the text.
func (e ErrorReply) Error() string { return string(e) }

// Errors that a caller may want to tell apart. Their texts are the server's, but for
// [ErrIncomplete].
const (
	ErrWrongType     ErrorReply = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrNotFound      ErrorReply = "ERR not found"   // there is no such key
	ErrExists        ErrorReply = "ERR item exists" // the key is there already
	ErrBFFull        ErrorReply = "ERR non scaling filter is full"
	ErrCFFull        ErrorReply = "Filter is full"
	ErrCFExpansions  ErrorReply = "Maximum expansions reached"
	ErrBadData       ErrorReply = "ERR received bad data" // what BF.LOADCHUNK got is no dump, or no part of this one
	ErrOutOfMemory   ErrorReply = "OOM command not allowed when used memory > 'maxmemory'."
	ErrNoSuchKey     ErrorReply = "ERR no such key" // to RENAME
	ErrCFDelNotFound ErrorReply = "Not found"       // CF.DEL of a key that is no cuckoo filter
)

const (
	errCompactNotFound ErrorReply = "Cuckoo filter was not found"
	errSyntax          ErrorReply = "ERR syntax error"
	errNotInteger      ErrorReply = "ERR value is not an integer or out of range"
)

// ErrIncomplete is what every command answers that would read or change a filter some
// bytes of which BF.LOADCHUNK or CF.LOADCHUNK has still to bring. A Redis server takes these bytes as
// zeros and calls keys absent that are in the dump; and adds made meanwhile are lost
// when the bytes come. The reply has the same code and tells what is missing, so
// compare with [IsIncomplete].
const ErrIncomplete ErrorReply = "INCOMPLETE the filter is being loaded"

// IsIncomplete reports whether err is that of a filter that has not been loaded to its
// end.
func IsIncomplete(err error) bool {
	var e ErrorReply
	return errors.As(err, &e) && len(e) >= len(ErrIncomplete) && e[:len(ErrIncomplete)] == ErrIncomplete
}

func wrongArity(command string) Reply {
	return errReply(ErrorReply("ERR wrong number of arguments for '" + command + "' command"))
}
