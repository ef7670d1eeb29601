// Memory of C in a program in Go: see cgo.sh.
package main

// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"unsafe"
)

// One goroutine keeps blocks and passes every other one on to the next.
func work(turns, seed int, in <-chan unsafe.Pointer, out chan<- unsafe.Pointer, sum *uint64) {
	kept := make([]unsafe.Pointer, 500)
	size := make([]int, 500)
	number := uint32(seed*7919 + 1)
	for turn := 0; turn < turns; turn++ {
		number = number*1664525 + 1013904223
		at := int(number>>8) % len(kept)
		switch {
		case kept[at] == nil:
			size[at] = 16 + int(number>>20)%2000
			kept[at] = C.malloc(C.size_t(size[at]))
			C.memset(kept[at], C.int(at&127), C.size_t(size[at]))
		case number>>30 == 0:
			kept[at] = C.realloc(kept[at], C.size_t(size[at]*2))
			*sum += uint64(*(*byte)(unsafe.Add(kept[at], size[at]-1)))
			C.free(kept[at])
			kept[at] = nil
		default:
			*sum += uint64(*(*byte)(kept[at])) + uint64(size[at])
			C.free(kept[at])
			text := C.CString(strconv.Itoa(turn))
			*sum += uint64(C.strlen(text))
			kept[at] = nil
			if turn%2 == 0 {
				out <- unsafe.Pointer(text)
				C.free(<-in)
			} else {
				C.free(unsafe.Pointer(text))
			}
		}
	}
	for _, block := range kept {
		C.free(block)
	}
	close(out)
	for block := range in {
		C.free(block)
	}
}

func main() {
	turns, _ := strconv.Atoi(os.Args[1])
	const tasks = 8
	var group sync.WaitGroup
	sums := make([]uint64, tasks)
	pipes := make([]chan unsafe.Pointer, tasks)
	for at := range pipes {
		pipes[at] = make(chan unsafe.Pointer, 1<<20)
	}
	for at := 0; at < tasks; at++ {
		group.Add(1)
		go func(at int) {
			defer group.Done()
			work(turns, at, pipes[at], pipes[(at+1)%tasks], &sums[at])
		}(at)
	}
	group.Wait()
	fmt.Println(sums)
}
