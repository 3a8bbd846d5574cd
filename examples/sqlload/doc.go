// Package sqlload has the example of a guard over a database/sql table, and tests of package
// guard/sqlload on SQLite.
package sqlload
