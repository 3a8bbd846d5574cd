//go:build !linux

package bloomd

func (c *conn) loop() error { return c.plainLoop() }

func (c *conn) writeNow() int { return 0 }
