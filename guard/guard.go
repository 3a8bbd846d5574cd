// Package guard keeps lookups of keys that do not exist away from the database.
package guard
