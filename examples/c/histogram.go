// histogram.go: histogram.c in Go, by cgo.
//
//	go build examples/c/histogram.go
package main

/*
#cgo LDFLAGS: -lfastdp -lm
#include "fastdp.h"

// cgo may not pass a pointer that holds Go pointers: the structures are made here.
static fdp_status_t release(const fdp_call_t *call, int gaussian, uint64_t num, uint64_t den,
                            int64_t *values, size_t n)
{
	const fdp_ratio_t parameter = {&num, &den, 1, 1};
	const fdp_target_t target = {values, FDP_I64, values, FDP_I64, NULL};
	fdp_sampler_t law;
	fdp_status_t status = gaussian ? fdp_sampler_gaussian(&law, &parameter)
	                               : fdp_sampler_laplace(&law, &parameter, 0);
	return status == FDP_OK ? fdp_release(call, &law, 0, n, &target) : status;
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
)

// Adds noise to the values, or leaves zeros. A second release under the same call would have the
// same noise: it needs a call of its own.
func release(call *C.fdp_call_t, name string, num, den uint64, values []int64) error {
	var gaussian C.int
	if name == "gaussian" {
		gaussian = 1
	}
	status := C.release(call, gaussian, C.uint64_t(num), C.uint64_t(den),
		(*C.int64_t)(&values[0]), C.size_t(len(values)))
	if status != C.FDP_OK {
		for i := range values {
			values[i] = 0
		}
		return fmt.Errorf("status %d", status)
	}
	return nil
}

func hash(values []int64) uint64 {
	state := uint64(0xcbf29ce484222325)
	for _, value := range values {
		for i := 0; i < 64; i += 8 {
			state = (state ^ uint64(value)>>i&255) * 0x100000001b3
		}
	}
	return state
}

func compare(file *os.File) bool {
	key := [32]C.uint8_t{1, 2, 3} // for tests: whoever has the key knows the noise
	var call C.fdp_call_t
	call.stream.cipher = C.FDP_CIPHER_CHACHA20
	C.fdp_stream_derive(&call.stream.key[0], &key[0], 0)
	lines, differ := 0, 0
	for text := bufio.NewScanner(file); text.Scan(); lines++ {
		var name string
		var num, den, want uint64
		var n int
		fmt.Sscanf(text.Text(), "%s %d %d %d %x", &name, &num, &den, &n, &want)
		values := make([]int64, n)
		if release(&call, name, num, den, values) != nil || hash(values) != want {
			differ++
		}
	}
	fmt.Printf("%d vectors, %d differ\n", lines, differ)
	return lines > 0 && differ == 0
}

func main() {
	var call C.fdp_call_t
	if C.fdp_call_open(&call) != C.FDP_OK {
		os.Exit(1)
	}
	counts := []int64{120, 7, 0, 31}
	if release(&call, "laplace", 1, 1, counts) != nil {
		os.Exit(1)
	}
	fmt.Println(counts)
	fmt.Println("a scale of 0:", release(&call, "laplace", 0, 1, []int64{120, 7}))
	C.fdp_call_close(&call)
	if len(os.Args) > 1 {
		file, err := os.Open(os.Args[1])
		if err != nil || !compare(file) {
			os.Exit(1)
		}
	}
}
