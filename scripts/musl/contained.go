// A program in Go, whose code in C gets its memory from libquarry.a. Prints the version of Quarry,
// and the usable size of 100 bytes, which on another allocator would be a little more than 100.
package main

// #include <stdlib.h>
// const char *quarry_version(void);
// size_t malloc_usable_size(void *);
// void malloc_stats(void);
import "C"
import (
	"fmt"
	"os"
)

func main() {
	done := make(chan int)
	for worker := 0; worker < 4; worker++ {
		go func() {
			for round := 0; round < 10000; round++ {
				C.free(C.malloc(C.size_t(round + 1)))
			}
			done <- 1
		}()
	}
	for worker := 0; worker < 4; worker++ {
		<-done
	}
	// Go ends without the C library's exit, which would print them.
	C.malloc_stats()
	size := C.malloc_usable_size(C.malloc(100))
	fmt.Print(C.GoString(C.quarry_version()), " ", size)
	if size != 112 {
		os.Exit(1)
	}
}
