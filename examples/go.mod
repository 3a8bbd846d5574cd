module github.com/redbloom-go/bloom/examples

go 1.26

require (
	github.com/maypok86/otter/v2 v2.4.0
	github.com/redbloom-go/bloom v0.0.0
	github.com/redbloom-go/bloom/bloomd v0.0.0
	github.com/redbloom-go/bloom/goredis v0.0.0
	github.com/redis/go-redis/v9 v9.22.0
	github.com/schollz/progressbar/v3 v3.19.1
	github.com/stretchr/testify v1.12.1
	golang.org/x/term v0.44.0
	golang.org/x/text v0.41.0
	modernc.org/sqlite v1.59.0
)

require go.uber.org/atomic v1.11.0 // indirect

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
	modernc.org/libc v1.75.7 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace github.com/redbloom-go/bloom => ../

replace github.com/redbloom-go/bloom/bloomd => ../bloomd

replace github.com/redbloom-go/bloom/goredis => ../goredis
