module github.com/redbloom-go/bloom/bloomd

go 1.26

require (
	github.com/redbloom-go/bloom v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
