module github.com/redbloom-go/bloom/bloomd

go 1.26

require (
	github.com/redbloom-go/bloom v0.0.0
	github.com/stretchr/testify v1.12.1
)
