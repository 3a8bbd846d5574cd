package main

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"

	"github.com/redbloom-go/bloom"
)

// frontier has the URLs that a crawl has yet to fetch, each one once. It does not know how many
// there will be, so its filter grows.
type frontier struct {
	seen  *bloom.Scalable
	queue []string
}

func newFrontier(capacity uint64, rate float64) (*frontier, error) {
	seen, err := bloom.NewScalable(capacity, rate)
	return &frontier{seen: seen}, err
}

// add puts a link of the page at base into the queue, unless it was there before.
func (f *frontier) add(base *url.URL, link string) error {
	u, err := base.Parse(link) // resolves . and .. too
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil // pages are full of links that lead nowhere
	}
	text := normalize(u)
	added, err := f.seen.AddString(text)
	if added {
		f.queue = append(f.queue, text)
	}
	return err
}

// normalize spells equal URLs alike. Scheme, host, port and percent signs follow RFC 3986, section
// 6.2, and are the same URL anywhere; the order of parameters, and to drop those for
// tracking, is a choice of this crawl. The fragment goes, since servers never see it.
func normalize(u *url.URL) string {
	n := url.URL{Scheme: strings.ToLower(u.Scheme), User: u.User, Host: strings.ToLower(u.Host)}
	if port := n.Port(); port == "" || n.Scheme == "http" && port == "80" || n.Scheme == "https" && port == "443" {
		n.Host = strings.TrimSuffix(n.Host, ":"+port)
	}
	n.RawPath = normalizeEscapes(u.EscapedPath())
	if n.RawPath == "" {
		n.RawPath = "/"
	}
	n.Path, _ = url.PathUnescape(n.RawPath)

	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		n.RawQuery = u.RawQuery // not ours to understand
		return n.String()
	}
	for name := range query {
		if strings.HasPrefix(name, "utm_") {
			query.Del(name)
		}
	}
	n.RawQuery = query.Encode() // sorted by name
	return n.String()
}

// normalizeEscapes decodes what need not be escaped, and writes the other escapes in capitals.
func normalizeEscapes(path string) string {
	const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	var b strings.Builder
	for ; path != ""; path = path[1:] {
		if path[0] != '%' || len(path) < 3 {
			b.WriteByte(path[0])
			continue
		}
		escape := path[:3]
		if c, err := url.PathUnescape(escape); err == nil && strings.Contains(unreserved, c) {
			b.WriteString(c)
		} else {
			b.WriteString(strings.ToUpper(escape))
		}
		path = path[2:]
	}
	return b.String()
}

// urls crawls a site that is made up, whose pages spell their links in many ways.
func urls(w io.Writer, _ []string) error {
	const (
		pages = 10_000
		rate  = 0.001
	)
	f, err := newFrontier(1000, rate)
	if err != nil {
		return err
	}
	root, err := url.Parse("https://shop.example")
	if err != nil {
		return err
	}
	if err := f.add(root, "/shelf%200/~item?id=0&lang=en"); err != nil {
		return err
	}
	links, fetched := 0, make(map[int]int)
	spellings := make(map[string]bool)
	for len(f.queue) > 0 {
		page, err := url.Parse(f.queue[0])
		if err != nil {
			return err
		}
		f.queue = f.queue[1:]
		id, err := strconv.Atoi(page.Query().Get("id"))
		if err != nil {
			return err
		}
		fetched[id]++
		for _, link := range linksOf(id, pages) {
			links++
			spellings[link] = true
			if err := f.add(page, link); err != nil {
				return err
			}
		}
	}
	twice := 0
	for _, n := range fetched {
		twice += n - 1
	}
	fmt.Fprintf(w, "links followed           %7d\n", links)
	fmt.Fprintf(w, "spelled differently      %7d\n", len(spellings))
	fmt.Fprintf(w, "pages there are          %7d\n", pages)
	fmt.Fprintf(w, "fetched                  %7d\n", len(fetched))
	fmt.Fprintf(w, "fetched twice            %7d\n", twice)
	fmt.Fprintf(w, "never fetched            %7d\n", pages-len(fetched))
	fmt.Fprintf(w, "memory of the filter     %7d KB, grown %d times\n", f.seen.SizeBytes()/1000, count(f.seen.Links())-1)
	fmt.Fprintf(w, `
A false positive is a page that is never fetched, and with it what no other page leads to: at %g %%, up
to %g of %d pages are to be expected. Nothing makes that good later, so choose a lower rate where
it matters: a factor of ten costs about 5 bits a page. No page is fetched twice.
`, 100*rate, rate*pages, pages)
	if twice > 0 {
		return fmt.Errorf("%d pages were fetched twice", twice)
	}
	return nil
}

// linksOf returns the links of a page, each in one of the ways in which people spell them.
func linksOf(id, pages int) []string {
	rng := rand.New(rand.NewPCG(uint64(id), 4))
	to := []int{id*2 + 1, id*2 + 2} // every page can be reached
	for range 10 {
		to = append(to, rng.IntN(pages))
	}
	links := []string{"mailto:office@shop.example", "#top"}
	for _, target := range to {
		if target >= pages {
			continue
		}
		shelf, other := target%7, rng.IntN(100)
		forms := []string{
			fmt.Sprintf("/shelf%%20%d/~item?id=%d&lang=en", shelf, target),
			fmt.Sprintf("/shelf%%20%d/%%7Eitem?lang=en&id=%d#reviews", shelf, target),
			fmt.Sprintf("/shelf%%20%d/../shelf%%20%d/./~item?id=%d&lang=en", other, shelf, target),
			fmt.Sprintf("HTTPS://Shop.Example:443/shelf%%20%d/%%7eitem?id=%d&lang=en", shelf, target),
			fmt.Sprintf("//SHOP.example/shelf %d/~item?utm_source=page%d&id=%d&lang=en", shelf, id, target),
		}
		links = append(links, forms[rng.IntN(len(forms))])
	}
	return links
}

func count[T any](all iter.Seq[T]) (n int) {
	for range all {
		n++
	}
	return n
}
