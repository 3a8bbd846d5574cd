package main

func Example() {
	main()
	// Output:
	// true
	// false
	// 9600448 bits, 7 hashes, 1200056 bytes
}
