// Package checks has the tests of what is not code: that every exported name is documented and every
// example has an output, that the exported names are those of testdata/api.txt, that links between pages
// lead somewhere, and that what README.md says is so.
package checks
